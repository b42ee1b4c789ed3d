// 2-D convolution (cross-correlation, as everywhere in the field).
#pragma once

#include "graph/graph.h"
#include "ops/window.h"

namespace crossbow {

struct Conv2dAttributes : Attributes {
  Size2 stride = 1;
  Padding padding = 0;  // zeros
  Size2 dilation = 1;
  int64_t groups = 1;

  WindowAxes axes(const Shape& weights) const {
    return window_axes({weights[2], weights[3]}, stride, dilation, padding);
  }
};

/// x [N, C, H, W], weights [O, C/groups, KH, KW], optional bias [O] -> [N, O, OH, OW] with
/// OH = floor((top + H + bottom − dilation·(KH−1) − 1) / stride) + 1, and OW alike.
Tensor conv2d(Tensor x, Tensor weights, Tensor bias, const Conv2dAttributes& attributes,
              std::string name = {});

// The gradient's ops: conv2d_grad_input(dy, weights) -> dx, and
// conv2d_grad_weights(x, dy) -> dw and, with a bias, db as second output.
struct Conv2dGradAttributes : Conv2dAttributes {
  Shape shape;             // of what is computed: x or the weights
  bool with_bias = false;  // grad_weights: whether there is a second output
};

}  // namespace crossbow
