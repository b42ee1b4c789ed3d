#include <algorithm>
#include <cstdio>
#include <cstring>
#include <vector>

#include "data/tar.h"
#include "fuzz/target.h"

namespace {

constexpr size_t kBlock = 512;

/// Makes the checksum of every header right, or else nothing behind the first change would be
/// reached. Old headers, without the word, keep theirs.
std::vector<uint8_t> with_header_checksums(std::span<const uint8_t> bytes) {
  std::vector<uint8_t> file(bytes.begin(), bytes.end());
  for (size_t at = 0; at + kBlock <= file.size(); at += kBlock) {
    uint8_t* const header = file.data() + at;
    if (std::memcmp(header + 257, "ustar", 5) != 0) continue;
    std::fill_n(header + 148, 8, uint8_t{' '});
    unsigned sum = 0;
    for (size_t i = 0; i < kBlock; ++i) sum += header[i];
    std::snprintf(reinterpret_cast<char*>(header) + 148, 8, "%06o", sum);
  }
  return file;
}

}  // namespace

FUZZ_TARGET(tar, bytes) {
  const std::vector<uint8_t> file = with_header_checksums(bytes);
  const auto size = static_cast<int64_t>(file.size());
  const crossbow::FileBytes source{size, [&](int64_t offset, std::span<uint8_t> part) {
                                     std::copy_n(file.begin() + offset, part.size(), part.begin());
                                   }};
  const auto picture = [&](const crossbow::data::TarPicture& p) {
    const bool inside = p.begin >= 0 && p.size >= 0 && p.begin <= size && p.size <= size - p.begin;
    if (!inside || p.label < 0) __builtin_trap();
  };
  const auto bad = [&](int64_t begin, const std::string&) {
    if (begin < 0 || begin > size) __builtin_trap();
  };
  crossbow::data::scan_tar(source, picture, bad);
}
