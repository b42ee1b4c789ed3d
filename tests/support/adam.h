// An optimizer of the tests' own, with two slots: Adam, Kingma & Ba 2015, without the correction of
// its first steps. Registered for the CPU and the reference.
#pragma once

#include "device/optimizer.h"

namespace crossbow::testing {

/// β1 0.9, β2 0.99, ε 1e-3.
Optimizer make_adam(double weight_decay);

}  // namespace crossbow::testing
