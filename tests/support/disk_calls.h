// What a call brings to disk, and in which order: the C library's fsync and rename are replaced by
// ones that take notes.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace crossbow::testing {

struct DiskCall {
  std::string name;   // "sync file", "sync folder", "rename"
  std::string path;   // as the kernel names it; of a rename, the new one as the caller does
  std::string from;   // of a rename
  int64_t bytes = 0;  // of the file, at that moment
};

/// Those that `call` makes, by whichever thread. One such call at a time.
std::vector<DiskCall> disk_calls(const std::function<void()>& call);

}  // namespace crossbow::testing
