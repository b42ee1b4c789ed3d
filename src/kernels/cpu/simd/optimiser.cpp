// Arithmetic on flat parameter buffers: bound by memory, so each is one pass.
#include "kernels/cpu/simd/tables.h"
#include "kernels/cpu/simd/vec.h"

namespace crossbow::simd::CROSSBOW_ISA {
namespace {

/// Calls `f(i, load, store)` for the pairs from `begin` to `end`, then for what is left of one.
template <typename F>
void for_each_pair(int64_t begin, int64_t end, F f) {
  int64_t i = begin;
  for (; i + kPair <= end; i += kPair) {
    f(
        i, [](const float* p) { return load_pair(p); }, [](float* p, Pair x) { store_pair(p, x); });
  }
  if (const int64_t left = end - i; left > 0) {
    f(
        i, [=](const float* p) { return load_part(p, left); },
        [=](float* p, Pair x) { store_part(p, x, left); });
  }
}

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

void combine(const float* factors, const float* const* terms, int count, float* out, int64_t begin,
             int64_t end) {
  for_each_pair(begin, end, [&](int64_t i, auto load, auto store) {
    Pair sum{};
    for (int t = 0; t < count; ++t) {
      const Pair x = load(terms[t] + i);
      for (int h = 0; h < 2; ++h) sum.v[h] += factors[t] * x.v[h];
    }
    store(out + i, sum);
  });
}

/// In double throughout: the square of a large gradient overflows f32.
double sum_of_squares(const float* x, int64_t n) {
  double total = 0;
#pragma omp simd reduction(+ : total)
  for (int64_t i = 0; i < n; ++i) total += static_cast<double>(x[i]) * x[i];
  return total;
}

}  // namespace

void add_optimiser(Loops& loops) {
  loops.sgd_step = sgd_step;
  loops.combine = combine;
  loops.sum_of_squares = sum_of_squares;
}

}  // namespace crossbow::simd::CROSSBOW_ISA
