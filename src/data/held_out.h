// What a file's rows are tested on: those of FILE.t, or else a tenth of its own.
#pragma once

#include <cstdint>
#include <string>

#include "data/source.h"

namespace crossbow::data {

/// Whether its name says that it is of gzip or bzip2.
bool is_packed(const Path& path);
/// FILE.t, packed or not, of a FILE that may be packed too; empty if there is none.
Path test_file(const Path& path);

/// Which of a file's rows are held out for the test, the same in each run: a tenth, at least one,
/// and not all.
class HeldOut {
 public:
  explicit HeldOut(int64_t rows) : rows_(rows) {}
  /// Of the first row, then of the second, and so on.
  bool takes_next();
  /// What to say of so many. Throws Error if there is none.
  static std::string note(const Path& path, int64_t rows);

 private:
  const int64_t rows_;
  int64_t next_ = 0, taken_ = 0;
};

}  // namespace crossbow::data
