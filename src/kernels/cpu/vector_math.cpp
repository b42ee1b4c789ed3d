#include "device/vector_math.h"

#include <omp.h>

#include <array>
#include <vector>

#include "kernels/cpu/loops.h"
#include "kernels/cpu/team.h"

namespace crossbow {
namespace {

class CpuVectorMath : public VectorMath {
 public:
  void sgd_step(const SgdStep& step, const SgdSpans& spans, int64_t n) const override {
    const SgdArgs args{static_cast<float>(step.lr),
                       static_cast<float>(step.momentum),
                       static_cast<float>(step.weight_decay),
                       spans.gradient_scale ? static_cast<float>(*spans.gradient_scale) : 1.0f,
                       static_cast<float>(step.pull),
                       step.nesterov};
    const SgdArrays arrays{
        static_cast<const float*>(spans.weights), static_cast<const float*>(spans.gradient),
        static_cast<float*>(spans.velocity), static_cast<const float*>(spans.central),
        static_cast<float*>(spans.next)};
    parallel_ranges(omp_get_max_threads(), n, [&](int64_t begin, int64_t end) {
      loops().sgd_step(args, arrays, begin, end);
    });
  }

  void combine(std::span<const double> factors, std::span<const void* const> terms, void* out,
               int64_t n) const override {
    constexpr size_t kFew = 256;  // as in a training step: no allocation
    std::array<float, kFew> few_factors;
    std::array<const float*, kFew> few_terms;
    const size_t many = terms.size() > kFew ? terms.size() : 0;
    std::vector<float> many_factors(many);
    std::vector<const float*> many_terms(many);
    float* const f = many ? many_factors.data() : few_factors.data();
    const float** const x = many ? many_terms.data() : few_terms.data();
    for (size_t t = 0; t < terms.size(); ++t) {
      f[t] = static_cast<float>(factors[t]);
      x[t] = static_cast<const float*>(terms[t]);
    }
    parallel_ranges(omp_get_max_threads(), n, [&](int64_t begin, int64_t end) {
      loops().combine(f, x, static_cast<int>(terms.size()), static_cast<float*>(out), begin, end);
    });
  }

  /// In a fixed number of shares, so that the sum does not depend on the number of threads.
  void squared_norm(const void* x, int64_t n, double* sum) const override {
    constexpr int64_t kShares = 64;
    std::array<double, kShares> sums;
    parallel_for(useful_threads(omp_get_max_threads(), n), kShares, [&](int64_t i) {
      const int64_t begin = n * i / kShares, end = n * (i + 1) / kShares;
      sums[i] = loops().sum_of_squares(static_cast<const float*>(x) + begin, end - begin);
    });
    double total = 0;
    for (double s : sums) total += s;
    *sum = total;
  }

  void find_clip_scale(double limit, const double* sums, int64_t count,
                       double* scale) const override {
    *scale = clip_scale(limit, {sums, static_cast<size_t>(count)});
  }
};

const CpuVectorMath kMath;
const RegisterVectorMath kRegistered{"cpu", DType::f32, kMath};

}  // namespace
}  // namespace crossbow
