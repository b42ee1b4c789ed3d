// Arithmetic on flat parameter buffers: bound by memory, so each is one pass.
#include "kernels/cpu/simd/tables.h"
#include "kernels/cpu/simd/vec.h"

namespace crossbow::simd::CROSSBOW_ISA {
namespace {

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

void add_flat(Loops& loops) {
  loops.combine = combine;
  loops.sum_of_squares = sum_of_squares;
}

}  // namespace crossbow::simd::CROSSBOW_ISA
