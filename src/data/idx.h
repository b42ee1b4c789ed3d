// The IDX format of MNIST: http://yann.lecun.com/exdb/mnist/. Big-endian: two zero bytes, a type
// byte (8: unsigned bytes, the only one read here), the number of dimensions, their sizes as 32-bit
// numbers, then the elements in row-major order.
#pragma once

#include <cstdint>
#include <span>

#include "core/shape.h"

namespace crossbow::data {

/// A file that claims to hold more is refused.
constexpr int64_t kMaxElements = int64_t{1} << 30;

struct Idx {
  Shape shape;    // rank 1 to 3
  size_t offset;  // of the first element in the file; the elements fill the rest of it
};

/// Throws Error unless `file` is a whole IDX file of unsigned bytes.
Idx parse_idx(std::span<const uint8_t> file);

}  // namespace crossbow::data
