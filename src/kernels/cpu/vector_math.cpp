#include "device/vector_math.h"

#include <omp.h>

#include <array>

#include "kernels/cpu/loops.h"
#include "kernels/cpu/team.h"

namespace crossbow {
namespace {

class CpuVectorMath : public VectorMath {
 public:
  void sgd_step(const SgdStep& step, void* weights, const void* gradient, void* velocity,
                int64_t n) const override {
    const SgdArgs args{static_cast<float>(step.lr), static_cast<float>(step.momentum),
                       static_cast<float>(step.weight_decay),
                       static_cast<float>(step.gradient_scale), step.nesterov};
    const auto w = static_cast<float*>(weights);
    const auto g = static_cast<const float*>(gradient);
    const auto v = static_cast<float*>(velocity);
    parallel_ranges(omp_get_max_threads(), n, [&](int64_t begin, int64_t end) {
      loops().sgd_step(args, w + begin, g + begin, v ? v + begin : nullptr, end - begin);
    });
  }

  /// In a fixed number of shares, so that the sum does not depend on the number of threads.
  double squared_norm(const void* x, int64_t n) const override {
    constexpr int64_t kShares = 64;
    std::array<double, kShares> sums;
    parallel_for(useful_threads(omp_get_max_threads(), n), kShares, [&](int64_t i) {
      const int64_t begin = n * i / kShares, end = n * (i + 1) / kShares;
      sums[i] = loops().sum_of_squares(static_cast<const float*>(x) + begin, end - begin);
    });
    double total = 0;
    for (double s : sums) total += s;
    return total;
  }
};

const CpuVectorMath kMath;
const RegisterVectorMath kRegistered{"cpu", DType::f32, kMath};

}  // namespace
}  // namespace crossbow
