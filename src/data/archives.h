// Sets of pictures in archives: TFRecords or tars, some of which are for training and some for the
// test.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/picture_index.h"

namespace crossbow::data {

/// Names beneath the set's folder.
struct Archives {
  std::vector<std::string> train, test;

  bool found() const { return !train.empty() && !test.empty(); }
  /// Those for training first.
  std::vector<std::string> all() const {
    std::vector<std::string> names = train;
    names.insert(names.end(), test.begin(), test.end());
    return names;
  }
};

/// A file beside the archives with the names of the classes, a line each.
constexpr const char* kClassNames = "classes.txt";

/// Those of that kind whose names, or whose folder's, say that they are for training (`train`) or
/// the test (`validation` or `val`, or where there are none, `test`). TFRecords are told by
/// `.tfrecord` or by
/// `-00000-of-01024`, tars by `.tar`. Throws Error if some of a number that the names tell are
/// missing.
Archives find_archives(const std::filesystem::path& folder, Container container);

/// Reads all of them. Without sources and stamps. Throws Error, which names the archive and the
/// place in it, for a damaged one or for a label of a class that training has not, unless `options`
/// skip those; and if either part has no pictures, and nothing that was skipped.
PictureIndex index_archives(const std::filesystem::path& folder, Container container,
                            const Archives& archives, const OpenOptions& options);

}  // namespace crossbow::data
