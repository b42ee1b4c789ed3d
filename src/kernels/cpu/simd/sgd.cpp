// One pass over memory, which is what bounds it.
#include <algorithm>

#include "kernels/cpu/simd/shared.h"
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

void hogwild_step(const SgdArgs& args, const HogwildArrays& a, int64_t begin, int64_t end) {
  const float scale = args.gradient_scale, decay = args.weight_decay, lr = args.lr;
  constexpr int64_t kAhead = 2048;  // docs/asynchronous.md
  int64_t i = begin;
  for (; i + kLanes <= end; i += kLanes) {
    expect_to_write(a.shared + std::min(i + kAhead, end - 1));
    const F32 weights = load(a.weights + i);
    const F32 d = scale * load(a.gradient + i) + decay * weights;
    const F32 shared = (a.overwrites ? weights : load_shared(a.shared + i)) - lr * d;
    store_shared(a.shared + i, shared);
    store(a.next + i, shared);
  }
  for (; i < end; ++i) {
    const float d = scale * a.gradient[i] + decay * a.weights[i];
    const float shared = (a.overwrites ? a.weights[i] : load_shared_one(a.shared + i)) - lr * d;
    store_shared_one(a.shared + i, shared);
    a.next[i] = shared;
  }
}

void take_shared(const float* shared, float* own, int64_t begin, int64_t end) {
  int64_t i = begin;
  for (; i + kLanes <= end; i += kLanes) store(own + i, load_shared(shared + i));
  for (; i < end; ++i) own[i] = load_shared_one(shared + i);
}

}  // namespace

void add_sgd(Loops& loops) {
  loops.sgd_step = sgd_step;
  loops.hogwild_step = hogwild_step;
  loops.take_shared = take_shared;
}

}  // namespace crossbow::simd::CROSSBOW_ISA
