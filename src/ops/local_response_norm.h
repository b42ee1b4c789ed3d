// Local response normalisation across channels, Krizhevsky et al. 2012, in PyTorch's form.
#pragma once

#include "graph/graph.h"

namespace crossbow {

struct LocalResponseNormAttributes : Attributes {
  int64_t size = 5;  // neighbouring channels, the element's own in their middle: an odd number
  /// Divided by the size, as in PyTorch and Caffe; the paper's alpha is alpha/size here.
  float alpha = 1e-4f;
  float beta = 0.75f;
  float k = 1;
};

/// x [N, C, H, W] -> y = x/scale^beta with scale = k + alpha/size·Σx² over the neighbours that
/// exist. The second output is device-private: the scale, shaped as x, or a library's workspace.
Tensor local_response_norm(Tensor x, const LocalResponseNormAttributes& attributes = {},
                           std::string name = {});
// The gradient's op: local_response_norm_grad(dy, x, scale) -> dx.

}  // namespace crossbow
