// Tar archives of labelled pictures, as WebDataset reads them: members of one name, but for what
// follows its first dot, are a sample: `a/17.jpg`, its class in `a/17.cls`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

namespace crossbow::data {

struct TarPicture {
  int64_t begin = 0, size = 0;  // in the archive
  int64_t label = 0;
};

/// Calls `picture` for each sample of an archive that is not compressed, in its order. Members that
/// are neither pictures nor classes are left out. Throws Error, which names the archive and, where
/// it can, the member, for a damaged archive, or a picture or a class without the other.
void scan_tar(const std::filesystem::path& path,
              const std::function<void(const TarPicture& picture)>& picture);

}  // namespace crossbow::data
