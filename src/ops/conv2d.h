// 2-D convolution (cross-correlation, as everywhere in the field).
#pragma once

#include "graph/graph.h"

namespace crossbow {

struct Conv2dAttributes : Attributes {
  int64_t stride = 1, padding = 0, dilation = 1, groups = 1;
};

/// x [N, C, H, W], weights [O, C/groups, KH, KW], optional bias [O] -> [N, O, OH, OW] with
/// OH = floor((H + 2·padding − dilation·(KH−1) − 1) / stride) + 1.
Tensor conv2d(Tensor x, Tensor weights, Tensor bias, const Conv2dAttributes& attributes,
              std::string name = {});

// The gradient's ops: conv2d_grad_input(dy, weights) -> dx, and
// conv2d_grad_weights(x, dy) -> dw and, with a bias, db as second output.
struct Conv2dGradAttributes : Conv2dAttributes {
  Shape shape;             // of what is computed: x or the weights
  bool with_bias = false;  // grad_weights: whether there is a second output
};

}  // namespace crossbow
