// Batch normalisation, Ioffe & Szegedy 2015, with an optional fused addition and ReLU.
#pragma once

#include "graph/graph.h"

namespace crossbow {

struct BatchNormAttributes : Attributes {
  float epsilon = 1e-5f;
  /// The fraction of the running statistics that is kept: running = m·running + (1−m)·batch, with
  /// the *biased* batch variance (ONNX's rule; PyTorch's momentum is 1 − m).
  float momentum = 0.9f;
  bool training = true;  // false: normalise with the running statistics
  bool relu = false;     // set by fusion
};

/// x [N, C, H, W] or [N, C]; scale, shift, running_mean, running_variance [C]; optional residual
/// shaped as x: y = relu?(scale·(x − mean)/sqrt(variance + epsilon) + shift + residual).
/// Outputs: y and, in training, the batch mean [C] and 1/sqrt(variance + epsilon) [C], both f32.
/// In training the running statistics (states) are updated as a side effect.
Tensor batch_norm(Tensor x, Tensor scale, Tensor shift, Tensor running_mean,
                  Tensor running_variance, const BatchNormAttributes& attributes,
                  std::string name = {});

// The gradient's op: batch_norm_grad(dy, x, scale, shift, mean, inverse_std, y) -> dx, dscale,
// dshift and, with a residual, its gradient dy·[y > 0] (or dy) as fourth output. y is absent unless
// there are both a residual and a ReLU; without a residual the mask follows from x.
struct BatchNormGradAttributes : BatchNormAttributes {
  bool residual = false;
};

}  // namespace crossbow
