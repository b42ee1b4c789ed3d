#include <cstring>
#include <vector>

#include "data/picture_index.h"
#include "data/tfrecord.h"
#include "fuzz/target.h"

FUZZ_TARGET(picture_index, bytes) {
  std::vector<uint8_t> file(bytes.begin(), bytes.end());
  // With a right checksum, or else nothing else would be reached.
  const uint32_t crc = crossbow::data::masked_crc(file);
  file.resize(file.size() + sizeof crc);
  std::memcpy(file.data() + bytes.size(), &crc, sizeof crc);
  const auto index = crossbow::data::parse_index(file);
  if (index && crossbow::data::to_bytes(*index) != file) __builtin_trap();
}
