#include "core/crc32c.h"

#include <isa-l/crc.h>

#include <algorithm>

namespace crossbow {

uint32_t crc32c(std::span<const uint8_t> bytes, uint32_t before) {
  // The library takes a pointer to what it does not change, and a length that is an int.
  uint32_t crc = ~before;
  constexpr size_t kPiece = size_t{1} << 30;
  for (; !bytes.empty(); bytes = bytes.subspan(std::min(kPiece, bytes.size()))) {
    crc = crc32_iscsi(const_cast<uint8_t*>(bytes.data()),
                      static_cast<int>(std::min(kPiece, bytes.size())), crc);
  }
  return ~crc;
}

uint32_t crc32c(const FileBytes& file) {
  uint32_t crc = 0;
  read_in_pieces(file, [&](int64_t, std::span<uint8_t> bytes) { crc = crc32c(bytes, crc); });
  return crc;
}

}  // namespace crossbow
