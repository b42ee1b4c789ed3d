#include "support/lars.h"

#include <cmath>

#include "device/host_math.h"

namespace crossbow::testing {
namespace {

constexpr UpdateRule kLars{.name = "lars", .by_parameter = true};

double norm(const float* x, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return std::sqrt(sum);
}

void step_of(const UpdateStep& step, const UpdateSpans& spans, int64_t n) {
  const auto* const w = static_cast<const float*>(spans.weights);
  const auto* const g = static_cast<const float*>(spans.gradient);
  const auto* const z = static_cast<const float*>(spans.central);
  auto* const v = static_cast<float*>(spans.slots[0]);
  const double scale = spans.gradient_scale ? *spans.gradient_scale : 1;
  const double size = norm(w, n), decay = step.weight_decay;
  const double local = kLarsTrust * size / (scale * norm(g, n) + decay * size + 1e-9);
  for (int64_t i = 0; i < n; ++i) {
    const double d = scale * static_cast<double>(g[i]) + decay * static_cast<double>(w[i]);
    v[i] = static_cast<float>(0.9 * static_cast<double>(v[i]) + step.lr * local * d);
    const double pulled = z ? step.pull * static_cast<double>(w[i] - z[i]) : 0;
    static_cast<float*>(spans.next)[i] = w[i] - v[i] - static_cast<float>(pulled);
  }
}

const RegisterUpdate kCpu{kLars, "cpu", DType::f32, step_of};
const RegisterUpdate kRef{kLars, "ref", DType::f32, step_of};

}  // namespace

Optimizer make_lars(double weight_decay) {
  return {&kLars, {"velocity"}, weight_decay};
}

}  // namespace crossbow::testing
