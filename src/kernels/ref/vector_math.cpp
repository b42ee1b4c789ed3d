#include "device/vector_math.h"

namespace crossbow {
namespace {

template <typename T>
class RefVectorMath : public VectorMath {
 public:
  void sgd_step(const SgdStep& step, const SgdSpans& spans, int64_t n) const override {
    const T lr = static_cast<T>(step.lr), momentum = static_cast<T>(step.momentum);
    const T weight_decay = static_cast<T>(step.weight_decay);
    const T gradient_scale = static_cast<T>(spans.gradient_scale ? *spans.gradient_scale : 1);
    const T pull = static_cast<T>(step.pull);
    const T* w = static_cast<const T*>(spans.weights);
    const T* g = static_cast<const T*>(spans.gradient);
    const T* z = static_cast<const T*>(spans.central);
    T* v = static_cast<T*>(spans.velocity);
    T* next = static_cast<T*>(spans.next);
    for (int64_t i = 0; i < n; ++i) {
      const T d = gradient_scale * g[i] + weight_decay * w[i];
      T direction = d;
      if (v) {
        v[i] = momentum * v[i] + d;
        direction = step.nesterov ? d + momentum * v[i] : v[i];
      }
      next[i] = w[i] - lr * direction - (z ? pull * (w[i] - z[i]) : 0);
    }
  }

  void combine(std::span<const double> factors, std::span<const void* const> terms, void* out,
               int64_t n) const override {
    for (int64_t i = 0; i < n; ++i) {
      T sum = 0;
      for (size_t t = 0; t < terms.size(); ++t) {
        sum += static_cast<T>(factors[t]) * static_cast<const T*>(terms[t])[i];
      }
      static_cast<T*>(out)[i] = sum;
    }
  }

  void squared_norm(const void* x, int64_t n, double* total) const override {
    const T* values = static_cast<const T*>(x);
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(values[i]) * values[i];
    *total = sum;
  }

  void find_clip_scale(double limit, const double* sums, int64_t count,
                       double* scale) const override {
    *scale = clip_scale(limit, {sums, static_cast<size_t>(count)});
  }
};

const RefVectorMath<float> kMathF32;
const RefVectorMath<double> kMathF64;
const RegisterVectorMath kF32{"ref", DType::f32, kMathF32};
const RegisterVectorMath kF64{"ref", DType::f64, kMathF64};

}  // namespace
}  // namespace crossbow
