// Stochastic gradient descent, PyTorch's form, with a pull towards a central model z:
//   d = gradient_scale·g + weight_decay·w;  v = momentum·v + d;
//   next = w − lr·(nesterov ? d + momentum·v : v) − pull·(w − z)
#pragma once

#include "device/optimizer.h"

namespace crossbow {

inline constexpr UpdateRule kSgd{"sgd"};
/// Places of its coefficients.
inline constexpr size_t kSgdMomentum = 0, kSgdNesterov = 1;

struct Sgd {
  double momentum = 0;
  WeightDecay weight_decay = {};
  bool nesterov = false;
};

/// Keeps v, in the slot "momentum", where there is momentum.
inline Optimizer make_sgd(const Sgd& sgd = {}) {
  Optimizer optimizer{&kSgd, {}, sgd.weight_decay};
  if (sgd.momentum > 0) {
    optimizer.slots = {"momentum"};
    optimizer.gradient_decay = sgd.momentum;
  }
  optimizer.coefficients[kSgdMomentum] = sgd.momentum;
  optimizer.coefficients[kSgdNesterov] = sgd.nesterov ? 1 : 0;
  return optimizer;
}

}  // namespace crossbow
