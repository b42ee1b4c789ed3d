#include "device/cuda/library.h"

#include <dlfcn.h>

#include "core/error.h"

namespace crossbow::cuda {

Library::Library(const Need& need, std::string_view file, std::string_view found)
    : need_(need), file_(file), handle_(dlopen(file_.c_str(), RTLD_NOW | RTLD_LOCAL)) {
  if (!handle_) handle_ = dlopen(std::string(found).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle_) {
    fail(
        "{} need NVIDIA's {} {} or later, and {} cannot be loaded ({}): install it, or put its "
        "folder into LD_LIBRARY_PATH",
        need_.work, need_.name, need_.at_least, file_, dlerror());
  }
}

void Library::refuse(std::string_view version) const {
  fail("{} is {} {}, and {} need {} or later: install that", file_, need_.name, version, need_.work,
       need_.at_least);
}

void* Library::address(const char* name) const {
  void* const address = dlsym(handle_, name);
  if (!address) {
    fail("{} lacks {}: install {} {} or later", file_, name, need_.name, need_.at_least);
  }
  return address;
}

}  // namespace crossbow::cuda
