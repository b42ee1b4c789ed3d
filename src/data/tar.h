// Tar archives of labelled pictures, as WebDataset reads them: members of one name, but for what
// follows its first dot, are a sample: `a/17.jpg`, its class in `a/17.cls`.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "core/file.h"

namespace crossbow::data {

struct TarPicture {
  int64_t begin = 0, size = 0;  // in the archive, which has so many bytes
  int64_t label = 0;
};

/// Calls `picture` for each sample of an archive that is not compressed, in its order; and `bad`
/// for each sample that cannot be used, or for which `picture` throws Error, with where it begins
/// and why, which names it. Of those are a picture or a class without the other, or one that is a
/// link or a device, or whose name leads out of the archive. Where the archive itself is damaged,
/// cut short or compressed, `bad` is called for the last time. Other members are passed over. Takes
/// a few MiB at most, whatever sizes the archive claims.
void scan_tar(const FileBytes& file, const std::function<void(const TarPicture& picture)>& picture,
              const std::function<void(int64_t begin, const std::string& reason)>& bad);

}  // namespace crossbow::data
