#include <algorithm>
#include <cstring>
#include <vector>

#include "data/tfrecord.h"
#include "fuzz/target.h"

namespace {

/// Makes every checksum right, or else nothing behind the first change would be reached.
std::vector<uint8_t> with_record_checksums(std::span<const uint8_t> bytes) {
  std::vector<uint8_t> file(bytes.begin(), bytes.end());
  const auto put = [&](size_t at, std::span<const uint8_t> of) {
    const uint32_t crc = crossbow::data::masked_crc(of);
    std::memcpy(file.data() + at, &crc, sizeof crc);
  };
  for (size_t at = 0; at + 16 <= file.size();) {
    uint64_t length;
    std::memcpy(&length, file.data() + at, sizeof length);
    put(at + 8, std::span(file).subspan(at, 8));
    if (length > file.size() - at - 16) break;
    put(at + 12 + length, std::span(file).subspan(at + 12, length));
    at += 16 + length;
  }
  return file;
}

}  // namespace

FUZZ_TARGET(tfrecord, bytes) {
  const std::vector<uint8_t> file = with_record_checksums(bytes);
  const crossbow::FileBytes source{std::ssize(file), [&](int64_t offset, std::span<uint8_t> part) {
                                     std::copy_n(file.begin() + offset, part.size(), part.begin());
                                   }};
  const auto record = [](int64_t, std::span<const uint8_t> data) {
    const crossbow::data::Example example = crossbow::data::parse_example(data);
    if (example.begin + example.size > std::ssize(data)) __builtin_trap();
  };
  crossbow::data::scan_records(source, record, [](int64_t, const std::string&) {});
}
