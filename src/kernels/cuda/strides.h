// Where a tensor's elements lie, for kernels that go through them in another order.
#pragma once

#include <limits>

#include "kernels/cuda/prepare.h"

namespace crossbow::CROSSBOW_GRID {

/// A tensor's strides by dimension, and its blocks, innermost first; dimensions in front that it
/// lacks have one index.
struct Strides {
  static constexpr size_t kMostBlocks = 4;

  static bool know(const Layout& layout) {
    const bool numbers = layout.dtype == DType::f32 || layout.dtype == DType::bf16;
    return numbers && layout.blocks.size() <= kMostBlocks && layout.shape.rank() <= 4 &&
           layout.elements() <= std::numeric_limits<int32_t>::max();
  }

  int32_t sizes[4], steps[4];
  int32_t blocks = 0, block_dims[kMostBlocks] = {}, block_sizes[kMostBlocks] = {};

  explicit Strides(const Layout& layout) {
    const int missing = 4 - layout.shape.rank();
    for (int d = 0; d < 4; ++d) {
      sizes[d] = d < missing ? 1 : static_cast<int32_t>(layout.shape[d - missing]);
      steps[d] = d < missing ? 0 : static_cast<int32_t>(layout.strides[d - missing]);
    }
    for (auto block = layout.blocks.rbegin(); block != layout.blocks.rend(); ++block) {
      block_dims[blocks] = block->dim + missing;
      block_sizes[blocks++] = static_cast<int32_t>(block->size);
    }
  }
  /// Of the i-th element in row-major order; see Layout::offset.
  CROSSBOW_GPU int32_t offset(int32_t i) const {
    int32_t index[4], at = 0, step = 1;
    for (int d = 3; d >= 0; --d) {
      index[d] = i % sizes[d];
      i /= sizes[d];
    }
    for (int b = 0; b < blocks; ++b) {
      int32_t& inner = index[block_dims[b]];
      at += inner % block_sizes[b] * step;
      inner /= block_sizes[b];
      step *= block_sizes[b];
    }
    for (int d = 0; d < 4; ++d) at += index[d] * steps[d];
    return at;
  }
};

}  // namespace crossbow::CROSSBOW_GRID
