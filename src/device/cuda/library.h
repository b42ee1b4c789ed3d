// A library of NVIDIA's that is loaded when something first needs it, so that a program runs where
// it is missing.
#pragma once

#include <string>
#include <string_view>

namespace crossbow::cuda {

/// For as long as the process lives.
class Library {
 public:
  /// What users are told where it is missing: "convolutions on GPUs need NVIDIA's cuDNN 9.8 or
  /// later".
  struct Need {
    std::string_view work;      // "convolutions on GPUs"
    std::string_view name;      // "cuDNN"
    std::string_view at_least;  // the oldest version, "9.8"
  };

  /// `file`, where the loader finds it, or else `found`, where the build has found it. Throws Error
  /// if neither can be loaded.
  Library(const Need& need, std::string_view file, std::string_view found);

  /// Throws Error if the library lacks the function.
  template <typename Function>
  void load(Function& function, const char* name) const {
    function = reinterpret_cast<Function>(address(name));
  }
  /// Throws Error: it has this version, which is older than needed.
  [[noreturn]] void refuse(std::string_view version) const;

 private:
  void* address(const char* name) const;

  const Need need_;
  const std::string file_;
  void* handle_;
};

}  // namespace crossbow::cuda
