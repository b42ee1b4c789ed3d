// Batch normalisation, Ioffe & Szegedy 2015, with an optional fused addition and activation.
#pragma once

#include "ops/activation.h"

namespace crossbow {

struct BatchNormAttributes : Attributes {
  float epsilon = 1e-5f;
  /// The fraction of the running statistics that is kept: running = m·running + (1−m)·batch, with
  /// the *biased* batch variance (ONNX's rule; PyTorch's momentum is 1 − m).
  float momentum = 0.9f;
  /// False: normalise with the running statistics. Scale and shift then get no gradient: freeze
  /// them.
  bool training = true;
  /// Set by fusion: none, relu or, without a residual, relu6.
  Activation activation = Activation::none;
};

/// x [N, C, H, W] or [N, C]; scale, shift, running_mean, running_variance [C]; optional residual
/// shaped as x: y = activation(scale·(x − mean)/sqrt(variance + epsilon) + shift + residual).
/// Outputs: y and, in training, the batch mean [C] and 1/sqrt(variance + epsilon) [C], both f32.
/// In training the running statistics (states) are updated as a side effect. The gradient of a
/// batch norm over a single value for each channel (x [1, C] or [1, C, 1, 1]) is refused, as by
/// PyTorch: the value less its mean is rounding noise, which the variance of 0 would blow up.
Tensor batch_norm(Tensor x, Tensor scale, Tensor shift, Tensor running_mean,
                  Tensor running_variance, const BatchNormAttributes& attributes,
                  std::string name = {});

/// Of a batch_norm node, one that normalises with the running statistics.
std::shared_ptr<const Attributes> by_running_statistics(const Node& node);

// The gradient's op: batch_norm_grad(dy, x, scale, shift, mean, inverse_std, y) -> dx, dscale,
// dshift and, with both a residual and a ReLU, the residual's gradient dy·[y > 0] as fourth output.
// Only then is y present; without a residual the activation's mask follows from x, and without an
// activation the residual's gradient is dy itself.
struct BatchNormGradAttributes : BatchNormAttributes {
  bool residual = false;  // there is a fourth output
};

}  // namespace crossbow
