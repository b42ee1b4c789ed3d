// Where the encoded pictures of a set lie. The index of a set is made once, by reading all of it,
// and kept in a file.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace crossbow::data {

/// Strings, one after the other in memory.
class Names {
 public:
  void add(std::string_view name);
  std::string_view operator[](size_t i) const;
  size_t size() const { return ends_.size(); }
  bool operator==(const Names&) const = default;

 private:
  friend class IndexWriter;
  friend class IndexReader;
  std::string text_;
  std::vector<uint64_t> ends_;
};

enum class Container : uint8_t { files, tfrecord, tar };

/// Bytes of an archive.
struct PictureEntry {
  uint64_t offset = 0;  // of a TFRecord its data's
  uint32_t file = 0;
  uint32_t length = 0;           // of a TFRecord its data's, else the picture's
  uint32_t begin = 0, size = 0;  // of the picture, from there

  bool operator==(const PictureEntry&) const = default;
};

/// Bytes of an archive that cannot be used.
struct Skipped {
  uint32_t file = 0;
  uint64_t offset = 0;
  std::string reason;  // which names the archive and the place

  bool operator==(const Skipped&) const = default;
};

/// One part of a set.
struct PictureList {
  Names files;  // beneath the set's folder: archives, or the pictures themselves
  std::vector<PictureEntry> entries;  // one a picture, by file; of pictures that are files none
  std::vector<int32_t> labels;
  std::vector<Skipped> skipped = {};  // what was left out; an index that is kept has none

  bool operator==(const PictureList&) const = default;
};

/// What of a file or a folder changes when its contents do.
struct Stamp {
  uint64_t size = 0;     // 0 for a folder
  int64_t modified = 0;  // nanoseconds

  bool operator==(const Stamp&) const = default;
};

struct PictureIndex {
  Container container = Container::files;
  PictureList train, test;
  std::vector<std::string> classes;
  /// Of the archives, or of the folders of pictures, when the index was made.
  Names sources;
  std::vector<Stamp> stamps;

  bool operator==(const PictureIndex&) const = default;
};

/// As a file keeps it, with a checksum.
std::vector<uint8_t> to_bytes(const PictureIndex& index);
/// Nothing if the bytes are no index, or one of another version, or damaged.
std::optional<PictureIndex> parse_index(std::span<const uint8_t> bytes);

}  // namespace crossbow::data
