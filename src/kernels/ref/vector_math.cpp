#include "device/vector_math.h"

namespace crossbow {
namespace {

template <typename T>
class RefVectorMath : public VectorMath {
 public:
  void sgd_step(const SgdStep& step, void* weights, const void* gradient, void* velocity,
                int64_t n) const override {
    const T lr = static_cast<T>(step.lr), momentum = static_cast<T>(step.momentum);
    const T weight_decay = static_cast<T>(step.weight_decay);
    const T gradient_scale = static_cast<T>(step.gradient_scale);
    T* w = static_cast<T*>(weights);
    const T* g = static_cast<const T*>(gradient);
    T* v = static_cast<T*>(velocity);
    for (int64_t i = 0; i < n; ++i) {
      const T d = gradient_scale * g[i] + weight_decay * w[i];
      T direction = d;
      if (v) {
        v[i] = momentum * v[i] + d;
        direction = step.nesterov ? d + momentum * v[i] : v[i];
      }
      w[i] -= lr * direction;
    }
  }

  double squared_norm(const void* x, int64_t n) const override {
    const T* values = static_cast<const T*>(x);
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(values[i]) * values[i];
    return sum;
  }
};

const RefVectorMath<float> kMathF32;
const RefVectorMath<double> kMathF64;
const RegisterVectorMath kF32{"ref", DType::f32, kMathF32};
const RegisterVectorMath kF64{"ref", DType::f64, kMathF64};

}  // namespace
}  // namespace crossbow
