#include <omp.h>

#include <array>
#include <vector>

#include "device/host_math.h"
#include "kernels/cpu/loops.h"
#include "kernels/cpu/team.h"

namespace crossbow {
namespace {

class CpuVectorMath : public HostVectorMath {
 public:
  using HostVectorMath::HostVectorMath;

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
};

const CpuVectorMath kMath{"cpu", DType::f32};

}  // namespace
}  // namespace crossbow
