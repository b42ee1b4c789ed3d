#include "support/adam.h"

#include <cmath>

#include "device/host_math.h"

namespace crossbow::testing {
namespace {

constexpr UpdateRule kAdam{"adam"};
constexpr size_t kBeta1 = 0, kBeta2 = 1, kEpsilon = 2;

void step_of(const UpdateStep& step, const UpdateSpans& spans, int64_t n) {
  const auto lr = static_cast<float>(step.lr), pull = static_cast<float>(step.pull);
  const auto decay = static_cast<float>(step.weight_decay);
  const auto scale = static_cast<float>(spans.gradient_scale ? *spans.gradient_scale : 1);
  const auto beta1 = static_cast<float>(step.coefficients[kBeta1]);
  const auto beta2 = static_cast<float>(step.coefficients[kBeta2]);
  const auto epsilon = static_cast<float>(step.coefficients[kEpsilon]);
  const auto* const w = static_cast<const float*>(spans.weights);
  const auto* const g = static_cast<const float*>(spans.gradient);
  const auto* const z = static_cast<const float*>(spans.central);
  auto* const m = static_cast<float*>(spans.slots[0]);
  auto* const v = static_cast<float*>(spans.slots[1]);
  for (int64_t i = 0; i < n; ++i) {
    const float d = scale * g[i] + decay * w[i];
    m[i] = beta1 * m[i] + (1 - beta1) * d;
    v[i] = beta2 * v[i] + (1 - beta2) * (d * d);
    const float pulled = z ? pull * (w[i] - z[i]) : 0;
    static_cast<float*>(spans.next)[i] = w[i] - lr * (m[i] / (std::sqrt(v[i]) + epsilon)) - pulled;
  }
}

const RegisterUpdate kCpu{kAdam, "cpu", DType::f32, step_of};
const RegisterUpdate kRef{kAdam, "ref", DType::f32, step_of};

}  // namespace

Optimizer make_adam(double weight_decay) {
  return {&kAdam, {"m", "v"}, weight_decay, {0.9, 0.99, 1e-3}};
}

}  // namespace crossbow::testing
