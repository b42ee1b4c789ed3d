// Stochastic gradient descent: the numbers that a run keeps.
#pragma once

#include "device/vector_math.h"

namespace crossbow {

struct Sgd {
  double momentum = 0, weight_decay = 0;
  bool nesterov = false;
  double clip_norm = 0;  // 0: no limit
};

/// What a step at that rate does, without clipping.
SgdStep sgd_step(const Sgd& sgd, double lr);

/// What the whole gradient (weight decay apart) is multiplied by:
/// min(1, clip_norm / (norm + 1e-6)), as PyTorch's clip_grad_norm_ does.
double clip_scale(double clip_norm, double squared_norm);

}  // namespace crossbow
