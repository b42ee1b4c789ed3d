// Sets of images written as encoded pictures: in class folders, TFRecords or tars.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "data/dataset.h"
#include "data/picture_index.h"

namespace crossbow::data {

struct WriteOptions {
  Container container = Container::tfrecord;
  int64_t short_side = 0;  // larger pictures are scaled to it, and written as JPEGs; 0: as they are
  int quality = 90;        // of those
  /// Each picture is decoded, and left out if that fails. Else such a picture ends the writing if
  /// its header cannot be read, or if it is to be scaled.
  bool skip_bad = false;
  int threads = 0;  // 0 is one a core
  std::function<void(std::string_view what, int64_t done, int64_t total)> progress = {};
};

struct Written {
  int64_t train = 0, test = 0;   // pictures of the new set
  int64_t files = 0, there = 0;  // files of the new set, and how many of them were there before
  int64_t bytes = 0;             // written now
  /// What was left out, by this call or by earlier ones that were interrupted, and why: damaged
  /// archives, then pictures in the order of the set.
  std::vector<std::string> skipped;
};

/// Writes the images of both parts in the order of the set: encoded pictures as they are, images of
/// one size as PNGs. A file of the new set holds 1,250 of them, or one in class folders, and
/// appears when it is whole: what is there already is not written again. `source` names the set; in
/// `folder` must be nothing, or what the same call has written. Throws Error, naming the file or
/// the picture, and if all pictures of a part would be left out.
Written write_pictures(const Dataset& dataset, const std::string& source,
                       const std::filesystem::path& folder, const WriteOptions& options);

}  // namespace crossbow::data
