// A file that grows while a run trains, by lines or by turns, and a run's record of changes of
// learners.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/file.h"
#include "train/record.h"

namespace crossbow {

/// One process and one thread at a time may use a file. Throws Error naming the file where it
/// cannot be read or written.
class LineFile {
 public:
  /// Makes the file unless it is there; for what is no regular file throws and never waits.
  explicit LineFile(const std::filesystem::path& path);

  int64_t bytes() const { return bytes_; }
  std::string read() const;
  /// Drops all but the first `bytes`.
  void cut(int64_t bytes);
  /// `line` ends in a line break. If it cannot be written whole, takes back what was written of it
  /// and throws. Allocates nothing.
  void append(std::string_view line);
  /// All that was appended is on disk when the call returns.
  void sync();

 private:
  [[noreturn]] void fail_to(const char* what) const;

  std::filesystem::path path_;
  Descriptor file_;
  int64_t bytes_ = 0;
};

/// learners.jsonl: the changes of learners of a run, a line each, in the order of their places.
/// A line is written once, before its change takes effect, and never altered.
class LearnerLog {
 public:
  explicit LearnerLog(std::filesystem::path path) : path_(std::move(path)) {}

  /// Reads what the file has, if it is there. A last line that a power cut damaged is dropped after
  /// a call of `warn`. Throws Error naming any other line that append has not written.
  void read(const std::function<void(std::string_view)>& warn);
  const std::vector<LearnerChange>& changes() const { return changes_; }
  int64_t size() const { return static_cast<int64_t>(changes_.size()); }

  /// On disk when the call returns.
  void append(const LearnerChange& change);

 private:
  std::filesystem::path path_;
  std::vector<LearnerChange> changes_;
};

}  // namespace crossbow
