#include "support/disk_calls.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>

namespace crossbow::testing {
namespace {

std::mutex mutex;
std::vector<DiskCall>* calls = nullptr;

void add(DiskCall call) {
  const std::lock_guard lock(mutex);
  if (calls) calls->push_back(std::move(call));
}

void write_to(std::vector<DiskCall>* list) {
  const std::lock_guard lock(mutex);
  calls = list;
}

std::string path_of(int fd) {
  char path[4096];
  const auto n = ::readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), path, sizeof path);
  return {path, static_cast<size_t>(std::max<ssize_t>(n, 0))};
}

}  // namespace

std::vector<DiskCall> disk_calls(const std::function<void()>& call) {
  std::vector<DiskCall> list;
  write_to(&list);
  call();
  write_to(nullptr);
  return list;
}

}  // namespace crossbow::testing

extern "C" int fsync(int fd) {
  struct stat status {};
  ::fstat(fd, &status);
  crossbow::testing::add({S_ISDIR(status.st_mode) ? "sync folder" : "sync file",
                          crossbow::testing::path_of(fd), "", status.st_size});
  return static_cast<int>(::syscall(SYS_fsync, fd));
}

extern "C" int rename(const char* from, const char* to) noexcept {
  struct stat status {};
  ::stat(from, &status);
  crossbow::testing::add({"rename", to, from, status.st_size});
  return static_cast<int>(::syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}
