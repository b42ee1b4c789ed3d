#include <zlib.h>

#include <cstdlib>
#include <vector>

#include "fuzz/target.h"
#include "train/encoded.h"

namespace {

/// A checksum that fits, since no fuzzer would guess one; so corpus files end before it.
std::vector<uint8_t> with_checksum(std::span<const uint8_t> bytes) {
  std::vector<uint8_t> file(bytes.begin(), bytes.end());
  const auto crc = static_cast<uint32_t>(crc32_z(crc32_z(0, nullptr, 0), file.data(), file.size()));
  for (int shift = 0; shift < 32; shift += 8) file.push_back(static_cast<uint8_t>(crc >> shift));
  return file;
}

}  // namespace

FUZZ_TARGET(checkpoint, bytes) {
  using crossbow::testing::decoded, crossbow::testing::encoded;
  const std::vector<uint8_t> again = encoded(decoded(with_checksum(bytes)));
  if (encoded(decoded(again)) != again) std::abort();
}
