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

}  // namespace crossbow
