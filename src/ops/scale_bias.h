// A factor and an offset for each channel.
#pragma once

#include "graph/graph.h"

namespace crossbow {

/// y = x·scale + bias along dimension 1 of x [N, C, …]; scale and bias [C], either may be absent.
Tensor scale_bias(Tensor x, Tensor scale, Tensor bias, std::string name = {});

// The gradient's op: scale_bias_grad(dy, x, scale) -> dx, dscale, dbias; x and scale are absent
// where there is no scale, and then so is its gradient: the output order is dx, then what exists.
struct ScaleBiasGradAttributes : Attributes {
  bool scale = false, bias = false;
};

}  // namespace crossbow
