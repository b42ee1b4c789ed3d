// What a folder says about the conversion that writes it: which one it is, whether it is whole, and
// what was left out of each of its files.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace crossbow::data {

/// Keeps its own files in the folder. Any number of threads may call it, but for `finish`.
class Conversion {
 public:
  /// Makes the folder, or goes on with what the same job has begun. Throws Error if anything else
  /// is in it.
  Conversion(std::filesystem::path folder, std::string job);

  /// To be called before the file appears: why each picture was left out of it.
  void set_left_out(const std::string& file, const std::vector<std::string>& reasons) const;
  /// As this call or an earlier one has set it; control characters are spelled out.
  std::vector<std::string> left_out(const std::string& file) const;
  /// Everything is written.
  void finish() const;

 private:
  const std::filesystem::path folder_;
  const std::string job_;
};

/// Throws Error if a conversion writes that folder and is not whole.
void expect_converted(const std::filesystem::path& folder);

}  // namespace crossbow::data
