#include "device/sgd.h"

#include <atomic>

#include "device/hogwild_sgd.h"
#include "device/host_math.h"

namespace crossbow {
namespace {

template <typename T>
void step_of(const UpdateStep& step, const UpdateSpans& spans, int64_t n) {
  const T lr = static_cast<T>(step.lr), weight_decay = static_cast<T>(step.weight_decay);
  const T momentum = static_cast<T>(step.coefficients[kSgdMomentum]);
  const bool nesterov = step.coefficients[kSgdNesterov] != 0;
  const T gradient_scale = static_cast<T>(spans.gradient_scale ? *spans.gradient_scale : 1);
  const T pull = static_cast<T>(step.pull);
  const T* w = static_cast<const T*>(spans.weights);
  const T* g = static_cast<const T*>(spans.gradient);
  const T* z = static_cast<const T*>(spans.central);
  T* v = static_cast<T*>(spans.slots[0]);
  T* next = static_cast<T*>(spans.next);
  for (int64_t i = 0; i < n; ++i) {
    const T d = gradient_scale * g[i] + weight_decay * w[i];
    T direction = d;
    if (v) {
      v[i] = momentum * v[i] + d;
      direction = nesterov ? d + momentum * v[i] : v[i];
    }
    next[i] = w[i] - lr * direction - (z ? pull * (w[i] - z[i]) : 0);
  }
}

template <typename T>
void hogwild_step_of(const UpdateStep& step, const UpdateSpans& spans, int64_t n) {
  const T lr = static_cast<T>(step.lr), weight_decay = static_cast<T>(step.weight_decay);
  const T gradient_scale = static_cast<T>(spans.gradient_scale ? *spans.gradient_scale : 1);
  const T* w = static_cast<const T*>(spans.weights);
  const T* g = static_cast<const T*>(spans.gradient);
  T* shared = static_cast<T*>(spans.slots[0]);
  T* next = static_cast<T*>(spans.next);
  const bool overwrites = step.coefficients[kHogwildOverwrites] != 0;
  for (int64_t i = 0; i < n; ++i) {
    const std::atomic_ref<T> s(shared[i]);
    const T before = overwrites ? w[i] : s.load(std::memory_order_relaxed);
    const T after = before - lr * (gradient_scale * g[i] + weight_decay * w[i]);
    s.store(after, std::memory_order_relaxed);
    if (next) next[i] = after;
  }
}

template <typename T>
void take_shared(const UpdateStep&, const UpdateSpans& spans, int64_t n) {
  T* shared = static_cast<T*>(spans.slots[0]);
  T* own = static_cast<T*>(spans.next);
  for (int64_t i = 0; i < n; ++i) {
    own[i] = std::atomic_ref<T>(shared[i]).load(std::memory_order_relaxed);
  }
}

const RegisterUpdate kHogwildF32{kHogwildSgd, "ref", DType::f32, hogwild_step_of<float>};
const RegisterUpdate kHogwildF64{kHogwildSgd, "ref", DType::f64, hogwild_step_of<double>};
const RegisterUpdate kTakesF32{kTakeShared, "ref", DType::f32, take_shared<float>};
const RegisterUpdate kTakesF64{kTakeShared, "ref", DType::f64, take_shared<double>};
const RegisterUpdate kF32{kSgd, "ref", DType::f32, step_of<float>};
const RegisterUpdate kF64{kSgd, "ref", DType::f64, step_of<double>};

}  // namespace
}  // namespace crossbow
