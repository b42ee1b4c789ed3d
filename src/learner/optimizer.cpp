#include "learner/optimizer.h"

#include <algorithm>
#include <cmath>

namespace crossbow {

SgdStep sgd_step(const Sgd& sgd, double lr) {
  return {lr, sgd.momentum, sgd.weight_decay, sgd.nesterov};
}

double clip_scale(double clip_norm, double squared_norm) {
  return std::min(1.0, clip_norm / (std::sqrt(squared_norm) + 1e-6));
}

}  // namespace crossbow
