// Sparse rows on a GPU (ops/sparse_rows.h). In each row columns ascend.
#pragma once

#include "kernels/cuda/prepare.h"

namespace crossbow::CROSSBOW_GRID {

/// Where in [begin, end) the first number of that column or a later one lies; `end` if none does.
CROSSBOW_GPU inline int32_t first_from(const int32_t* columns, int32_t begin, int32_t end,
                                       int64_t column) {
  while (begin < end) {
    const int32_t middle = begin + (end - begin) / 2;
    if (columns[middle] < column) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return begin;
}

struct SparseNumbers {
  float* values;
  int32_t *columns, *extents;

  /// An op's first three operands, and their layouts, whose types are type(0) to type(2).
  static SparseNumbers of(const std::vector<void*>& operands) {
    return {as<float>(operands[0]), as<int32_t>(operands[1]), as<int32_t>(operands[2])};
  }
  template <typename Types>
  static std::vector<Layout> layouts(const Types& type) {
    return {plain_f32(type(0).shape), plain_i32(type(1).shape), plain_i32(type(2).shape)};
  }
};

}  // namespace crossbow::CROSSBOW_GRID
