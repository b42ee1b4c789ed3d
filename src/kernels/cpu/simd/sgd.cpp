// One pass over memory, which is what bounds it.
#include "kernels/cpu/simd/tables.h"
#include "kernels/cpu/simd/vec.h"

namespace crossbow::simd::CROSSBOW_ISA {
namespace {

void sgd_step(const SgdArgs& args, const SgdArrays& a, int64_t begin, int64_t end) {
  const float scale = args.gradient_scale, decay = args.weight_decay, momentum = args.momentum;
  for_each_pair(begin, end, [&](int64_t i, auto load, auto store) {
    const Pair weight = load(a.weights + i), gradient = load(a.gradient + i);
    Pair velocity{}, central = weight, result;
    if (a.velocity) velocity = load(a.velocity + i);
    if (a.central) central = load(a.central + i);
    for (int h = 0; h < 2; ++h) {
      const F32 d = scale * gradient.v[h] + decay * weight.v[h];
      velocity.v[h] = momentum * velocity.v[h] + d;
      const F32 direction = args.nesterov ? d + momentum * velocity.v[h] : velocity.v[h];
      result.v[h] = weight.v[h] - args.lr * direction - args.pull * (weight.v[h] - central.v[h]);
    }
    if (a.velocity) store(a.velocity + i, velocity);
    store(a.next + i, result);
  });
}

}  // namespace

void add_sgd(Loops& loops) {
  loops.sgd_step = sgd_step;
}

}  // namespace crossbow::simd::CROSSBOW_ISA
