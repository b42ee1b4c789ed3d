// Arithmetic on flat parameter buffers: bound by memory, so each is one pass.
#include "kernels/cpu/simd/tables.h"
#include "kernels/cpu/simd/vec.h"

namespace crossbow::simd::CROSSBOW_ISA {
namespace {

void sgd_step(const SgdArgs& args, float* w, const float* g, float* v, int64_t n) {
  const float scale = args.gradient_scale, decay = args.weight_decay, momentum = args.momentum;
  const auto step = [&](int64_t i, auto load, auto store) {
    const Pair weight = load(w + i), gradient = load(g + i);
    Pair velocity{}, result;
    if (v) velocity = load(v + i);
    for (int h = 0; h < 2; ++h) {
      const F32 d = scale * gradient.v[h] + decay * weight.v[h];
      velocity.v[h] = momentum * velocity.v[h] + d;
      const F32 direction = args.nesterov ? d + momentum * velocity.v[h] : velocity.v[h];
      result.v[h] = weight.v[h] - args.lr * direction;
    }
    if (v) store(v + i, velocity);
    store(w + i, result);
  };
  int64_t i = 0;
  for (; i + kPair <= n; i += kPair) {
    step(
        i, [](const float* p) { return load_pair(p); }, [](float* p, Pair x) { store_pair(p, x); });
  }
  if (const int64_t left = n - i; left > 0) {
    step(
        i, [=](const float* p) { return load_part(p, left); },
        [=](float* p, Pair x) { store_part(p, x, left); });
  }
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
  loops.sum_of_squares = sum_of_squares;
}

}  // namespace crossbow::simd::CROSSBOW_ISA
