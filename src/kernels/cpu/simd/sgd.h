// What the rules make of a vector of weights and its gradient: for a pass over memory, and for
// products whose result is a gradient.
#pragma once

#include "kernels/cpu/simd/shared.h"
#include "kernels/cpu/simd/vec.h"

namespace crossbow::simd::CROSSBOW_ISA {

/// device/sgd.h's step. Changes the velocity, too.
inline F32 sgd_next(const SgdArgs& args, F32 weight, F32 gradient, F32& velocity, F32 central) {
  const F32 momentum = broadcast(args.momentum);
  const F32 d = fma(broadcast(args.weight_decay), weight, args.gradient_scale * gradient);
  velocity = fma(momentum, velocity, d);
  const F32 direction = args.nesterov ? fma(momentum, velocity, d) : velocity;
  return fma(broadcast(-args.pull), weight - central, fma(broadcast(-args.lr), direction, weight));
}

/// Whether device/hogwild_sgd.h's step reads the weights that gradients were computed with: else
/// they may be anything.
inline bool reads_own(const SgdArgs& args, const HogwildArrays& a) {
  return a.overwrites || args.weight_decay != 0;
}

/// That step, of the elements from i on.
inline void hogwild_vector(const SgdArgs& args, const HogwildArrays& a, int64_t i, F32 gradient) {
  const F32 weight = reads_own(args, a) ? load(a.weights + i) : F32{};
  const F32 d = fma(broadcast(args.weight_decay), weight, args.gradient_scale * gradient);
  const F32 from = a.overwrites ? weight : load_shared(a.shared + i);
  const F32 shared = fma(broadcast(-args.lr), d, from);
  store_shared(a.shared + i, shared);
  if (a.next) store(a.next + i, shared);
}

}  // namespace crossbow::simd::CROSSBOW_ISA
