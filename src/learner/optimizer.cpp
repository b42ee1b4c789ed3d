#include "learner/optimizer.h"

namespace crossbow {

SgdStep sgd_step(const Sgd& sgd, double lr) {
  return {lr, sgd.momentum, sgd.weight_decay, sgd.nesterov};
}

}  // namespace crossbow
