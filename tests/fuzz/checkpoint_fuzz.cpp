#include <zlib.h>

#include <cstdlib>
#include <vector>

#include "fuzz/target.h"
#include "train/encoded.h"
#include "train/forged.h"
#include "train/older_checkpoint.h"
#include "train/safetensors.h"

namespace crossbow {
namespace {

/// A checksum that fits, since no fuzzer would guess one; files of older versions lack it in the
/// corpus.
std::vector<uint8_t> with_checksum(std::span<const uint8_t> bytes) {
  std::vector<uint8_t> file(bytes.begin(), bytes.end());
  if (has_checksum(testing::file_of(file))) {
    testing::fit_checksum(file);
  } else if (is_older_checkpoint(testing::file_of(file))) {
    const auto crc = static_cast<uint32_t>(crc32_z(0, file.data(), file.size()));
    for (int shift = 0; shift < 32; shift += 8) file.push_back(static_cast<uint8_t>(crc >> shift));
  }
  return file;
}

std::vector<uint8_t> decoded_and_encoded(const std::vector<uint8_t>& bytes) {
  return testing::encoded(testing::decoded(bytes));
}

}  // namespace
}  // namespace crossbow

FUZZ_TARGET(checkpoint, bytes) {
  const std::vector<uint8_t> again = crossbow::decoded_and_encoded(crossbow::with_checksum(bytes));
  if (crossbow::decoded_and_encoded(again) != again) std::abort();
}
