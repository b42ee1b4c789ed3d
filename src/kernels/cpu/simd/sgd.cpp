// One pass over memory, which is what bounds it.
#include "kernels/cpu/simd/sgd.h"

#include <algorithm>

#include "kernels/cpu/simd/tables.h"

namespace crossbow::simd::CROSSBOW_ISA {
namespace {

void sgd_step(const SgdArgs& args, const SgdArrays& a, int64_t begin, int64_t end) {
  for_each_pair(begin, end, [&](int64_t i, auto load, auto store) {
    const Pair weight = load(a.weights + i), gradient = load(a.gradient + i);
    Pair velocity{}, central = weight, next;
    if (a.velocity) velocity = load(a.velocity + i);
    if (a.central) central = load(a.central + i);
    for (int h = 0; h < 2; ++h)
      next.v[h] = sgd_next(args, weight.v[h], gradient.v[h], velocity.v[h], central.v[h]);
    if (a.velocity) store(a.velocity + i, velocity);
    store(a.next + i, next);
  });
}

void hogwild_step(const SgdArgs& args, const HogwildArrays& a, int64_t begin, int64_t end) {
  constexpr int64_t kAhead = 2048;  // docs/asynchronous.md
  int64_t i = begin;
  for (; i + kLanes <= end; i += kLanes) {
    expect_to_write(a.shared + std::min(i + kAhead, end - 1));
    hogwild_vector(args, a, i, load(a.gradient + i));
  }
  for (; i < end; ++i) {
    const float weight = reads_own(args, a) ? a.weights[i] : 0;
    const float d = fma(args.weight_decay, weight, args.gradient_scale * a.gradient[i]);
    const float from = a.overwrites ? weight : load_shared_one(a.shared + i);
    const float shared = fma(-args.lr, d, from);
    store_shared_one(a.shared + i, shared);
    if (a.next) a.next[i] = shared;
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
