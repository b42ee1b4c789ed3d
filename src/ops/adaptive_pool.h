// The op "adaptive_avg_pool": averages that divide a map of any size into a given number of parts.
#pragma once

#include "graph/graph.h"
#include "ops/window.h"

namespace crossbow {

struct AdaptivePoolAttributes : Attributes {
  Size2 parts = 1;
};

struct AdaptivePoolGradAttributes : AdaptivePoolAttributes {
  Shape shape;  // of x
};

/// x [N, C, H, W] -> [N, C, parts.height, parts.width], as PyTorch's adaptive_avg_pool2d: along an
/// axis, parts that do not divide the map share pixels (PartAxis).
Tensor adaptive_avg_pool(Tensor x, const Size2& parts, std::string name = {});

// The gradient's op: adaptive_avg_pool_grad(dy) -> dx.

/// An axis of `size` pixels in `parts`: the i-th begins at ⌊i·size/parts⌋ and ends before
/// ⌈(i+1)·size/parts⌉.
struct PartAxis {
  int64_t size, parts;

  constexpr int64_t begin(int64_t part) const { return part * size / parts; }
  constexpr int64_t end(int64_t part) const { return ((part + 1) * size + parts - 1) / parts; }
  /// The first part with this pixel, and the last.
  constexpr int64_t first(int64_t pixel) const { return pixel * parts / size; }
  constexpr int64_t last(int64_t pixel) const { return ((pixel + 1) * parts - 1) / size; }
};

}  // namespace crossbow
