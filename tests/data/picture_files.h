// Writes small sets of pictures: TFRecords and tars.
#pragma once

#include <archive.h>
#include <archive_entry.h>

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "data/example.pb.h"
#include "data/pictures.h"
#include "data/tfrecord.h"

namespace crossbow::data {

/// Told apart by its size and colours.
inline FileBytes picture(int number) {
  Image image = gradient(20 + number % 5, 24 + number % 3);
  for (uint8_t& value : image.rgb) value = static_cast<uint8_t>(value + 3 * number);
  return number % 4 == 3 ? encode_png(image) : encode_jpeg(image);
}

struct Record {
  FileBytes picture;
  int64_t label = 0;
  std::string name = {};
  bool tensorflow_datasets = false;
};

inline std::string example_of(const Record& r) {
  proto::Example example;
  auto& features = *example.mutable_features()->mutable_feature();
  const std::string bytes(r.picture.begin(), r.picture.end());
  features[r.tensorflow_datasets ? "image" : "image/encoded"].mutable_bytes_list()->add_value(
      bytes);
  features[r.tensorflow_datasets ? "label" : "image/class/label"].mutable_int64_list()->add_value(
      r.label);
  features["image/height"].mutable_int64_list()->add_value(20);
  if (!r.name.empty()) features["image/class/text"].mutable_bytes_list()->add_value(r.name);
  return example.SerializeAsString();
}

template <typename T>
void append(FileBytes& file, const T& number) {
  const auto* const bytes = reinterpret_cast<const uint8_t*>(&number);
  file.insert(file.end(), bytes, bytes + sizeof number);
}

inline FileBytes records(const std::vector<Record>& all) {
  FileBytes file;
  for (const Record& r : all) {
    const std::string data = example_of(r);
    const FileBytes bytes(data.begin(), data.end());
    FileBytes length;
    append(length, uint64_t{data.size()});
    file.insert(file.end(), length.begin(), length.end());
    append(file, masked_crc(length));
    file.insert(file.end(), bytes.begin(), bytes.end());
    append(file, masked_crc(bytes));
  }
  return file;
}

struct Member {
  std::string name;
  FileBytes contents;
  unsigned type = AE_IFREG;
  std::string link = {};  // where a link leads to; hard ones are of type AE_IFREG
};

inline void write_tar(const std::filesystem::path& path, const std::vector<Member>& members,
                      int filter = ARCHIVE_FILTER_NONE) {
  archive* const a = archive_write_new();
  archive_write_set_format_pax_restricted(a);
  archive_write_add_filter(a, filter);
  archive_write_open_filename(a, path.c_str());
  for (const Member& m : members) {
    archive_entry* const entry = archive_entry_new();
    archive_entry_set_pathname(entry, m.name.c_str());
    archive_entry_set_size(entry, std::ssize(m.contents));
    archive_entry_set_filetype(entry, m.type);
    if (m.type == AE_IFLNK) archive_entry_set_symlink(entry, m.link.c_str());
    if (m.type == AE_IFREG && !m.link.empty()) archive_entry_set_hardlink(entry, m.link.c_str());
    archive_entry_set_perm(entry, 0644);
    archive_write_header(a, entry);
    archive_write_data(a, m.contents.data(), m.contents.size());
    archive_entry_free(entry);
  }
  archive_write_close(a);
  archive_write_free(a);
}

/// The tar, whose header at `at` now says, in base 256, that the member has so many bytes.
inline FileBytes claiming(FileBytes tar, size_t at, uint64_t size) {
  if (tar.size() < at + 512) fail("the tar has no header at {}", at);
  uint8_t* const header = tar.data() + at;
  std::fill_n(header + 124, 12, uint8_t{0});
  header[124] = 0x80;
  for (size_t byte = 0; byte < 8; ++byte) {
    header[135 - byte] = static_cast<uint8_t>(size >> 8 * byte);
  }
  std::fill_n(header + 148, 8, uint8_t{' '});
  const unsigned sum = std::accumulate(header, header + 512, 0u);
  std::snprintf(reinterpret_cast<char*>(header) + 148, 8, "%06o", sum);
  return tar;
}

inline FileBytes text(std::string_view s) {
  return {s.begin(), s.end()};
}

}  // namespace crossbow::data
