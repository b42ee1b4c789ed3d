#include "data/idx.h"

#include <array>

#include "core/error.h"

namespace crossbow::data {

Idx parse_idx(std::span<const uint8_t> file) {
  if (file.size() < 4 || file[0] != 0 || file[1] != 0) fail("this is not an IDX file");
  const int rank = file[3];
  if (file[2] != 8) fail("this IDX file does not hold unsigned bytes (type {:#04x})", file[2]);
  if (rank < 1 || rank > 3) fail("this IDX file has {} dimensions instead of 1 to 3", rank);
  Idx idx{{}, 4 + 4 * static_cast<size_t>(rank)};
  if (file.size() < idx.offset) fail("this IDX file is cut short in its header");

  std::array<int64_t, 3> sizes{};
  int64_t expected = 1;
  for (int d = 0; d < rank; ++d) {
    const uint8_t* p = file.data() + 4 + 4 * d;
    sizes[d] = int64_t{p[0]} << 24 | p[1] << 16 | p[2] << 8 | p[3];
    if (sizes[d] == 0) fail("this IDX file is empty: one of its sizes is 0");
    // Division keeps three 32-bit sizes from overflowing 64 bits.
    if (sizes[d] > kMaxElements / expected) {
      fail("this IDX file claims to hold more than {} bytes", kMaxElements);
    }
    expected *= sizes[d];
  }
  const auto found = static_cast<int64_t>(file.size() - idx.offset);
  if (found != expected) {
    fail("this IDX file should hold {} bytes of data but holds {}: get it again", expected, found);
  }
  idx.shape = Shape(std::span<const int64_t>(sizes.data(), static_cast<size_t>(rank)));
  return idx;
}

}  // namespace crossbow::data
