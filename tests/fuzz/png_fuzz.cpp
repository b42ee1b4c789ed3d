#include <zlib.h>

#include <vector>

#include "data/image.h"
#include "fuzz/target.h"

namespace {

/// Makes every chunk's checksum right, or else nothing behind the first change would be reached.
std::vector<uint8_t> with_checksums(std::span<const uint8_t> bytes) {
  std::vector<uint8_t> png(bytes.begin(), bytes.end());
  // After the signature: length, type, data, CRC of type and data; numbers are big-endian.
  for (size_t at = 8; at + 12 <= png.size();) {
    const uint8_t* p = png.data() + at;
    const size_t length = size_t{p[0]} << 24 | p[1] << 16 | p[2] << 8 | p[3];
    if (length > png.size() - at - 12) break;
    const auto crc = static_cast<uint32_t>(crc32_z(0, p + 4, length + 4));
    for (size_t b = 0; b < 4; ++b) {
      png[at + 8 + length + b] = static_cast<uint8_t>(crc >> (24 - 8 * b));
    }
    at += length + 12;
  }
  return png;
}

}  // namespace

FUZZ_TARGET(png, bytes) {
  // Few pixels, so that many files can be tried; the path is the same for larger pictures.
  crossbow::data::decode_png(with_checksums(bytes), 1 << 16);
}
