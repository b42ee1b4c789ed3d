#include "train/optimizer.h"

#include <algorithm>
#include <cmath>

namespace crossbow {

SgdStep sgd_step(const Sgd& sgd, double lr) {
  return {lr, sgd.momentum, sgd.weight_decay, sgd.nesterov};
}

void sgd_update(const Sgd& sgd, double lr, const ParameterLayout& layout, const VectorMath& math,
                const Replica& replica) {
  const int64_t n = layout.parameter_elements;
  SgdStep step = sgd_step(sgd, lr);
  if (sgd.clip_norm > 0) {
    const double norm = std::sqrt(math.squared_norm(replica.gradients.data(), n));
    step.gradient_scale = std::min(1.0, sgd.clip_norm / (norm + 1e-6));
  }
  void* velocity = sgd.momentum > 0 ? replica.momentum.data() : nullptr;
  math.sgd_step(step, replica.parameters.data(), replica.gradients.data(), velocity, n);
}

}  // namespace crossbow
