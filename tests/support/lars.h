// An optimizer of the tests' own that needs the norms of whole parameters: layer-wise adaptive
// rates, You, Gitman & Ginsburg 2017. Registered for the CPU and the reference.
#pragma once

#include "device/optimizer.h"

namespace crossbow::testing {

inline constexpr double kLarsTrust = 0.02;

/// v ← 0.9·v + lr·λ·(g + decay·w), w ← w − v, λ = trust·|w| / (|g| + decay·|w| + 1e-9); the norms
/// are the parameter's.
Optimizer make_lars(double weight_decay);

}  // namespace crossbow::testing
