// Ops that only move or rename elements: "reshape" and "concat".
#pragma once

#include <vector>

#include "graph/graph.h"

namespace crossbow {

struct ReshapeAttributes : Attributes {
  Shape shape;  // without the batch dimension, which is kept
};

/// [N, …] -> [N, shape…]; the number of elements of a row must not change.
Tensor reshape(Tensor x, Shape row_shape, std::string name = {});
/// [N, C, H, W] -> [N, C·H·W].
Tensor flatten(Tensor x);

/// Joins along dimension 1: [N, C_i, …] -> [N, ΣC_i, …].
Tensor concat(const std::vector<Tensor>& parts, std::string name = {});
// The gradient's op: slice_channels(dy) -> one part.
struct SliceAttributes : Attributes {
  int64_t begin = 0, count = 0;
};

}  // namespace crossbow
