// Stochastic gradient descent on a replica's flat buffers.
#pragma once

#include "device/vector_math.h"
#include "plan/program.h"

namespace crossbow {

/// The numbers that a run keeps.
struct Sgd {
  double momentum = 0, weight_decay = 0;
  bool nesterov = false;
  double clip_norm = 0;  // 0: no limit
};

/// What a step at that rate does, without clipping.
SgdStep sgd_step(const Sgd& sgd, double lr);

/// One update of the weights from the gradient in `replica`, in PyTorch's form (see SgdStep). With
/// `clip_norm`, the whole gradient (weight decay apart) is first multiplied by
/// min(1, clip_norm / (norm + 1e-6)), as PyTorch's clip_grad_norm_ does. Allocates nothing.
void sgd_update(const Sgd& sgd, double lr, const ParameterLayout& layout, const VectorMath& math,
                const Replica& replica);

}  // namespace crossbow
