#include "ops/gelu.h"

#include <numbers>

#include "kernels/ref/ref.h"

namespace crossbow::ref {
namespace {

/// Φ(x) and its derivative.
template <typename T>
struct Normal {
  T below, density;
};

template <typename T>
Normal<T> normal(GeluApproximation approximate, T x) {
  constexpr T kRootOf2 = std::numbers::sqrt2_v<T>;
  constexpr T kPeak = std::numbers::inv_sqrtpi_v<T> / kRootOf2;  // 1/√(2π)
  switch (approximate) {
    case GeluApproximation::none:
      return {std::erfc(-x / kRootOf2) / 2, kPeak * std::exp(-x * x / 2)};
    case GeluApproximation::tanh: {
      const T cubic = static_cast<T>(0.044715);
      const T t = std::tanh(2 * kPeak * (x + cubic * x * x * x));
      return {(1 + t) / 2, (1 - t * t) * kPeak * (1 + 3 * cubic * x * x)};
    }
  }
  fail("the reference device lacks an approximation of gelu");
}

template <typename T>
void gelu(const Run& run) {
  const T* x = run.in<T>(0);
  T* y = run.out<T>();
  const GeluApproximation approximate = run.attrs<GeluAttributes>().approximate;
  for (int64_t i = 0; i < run.out_shape().elements(); ++i) {
    y[i] = x[i] * normal(approximate, x[i]).below;
  }
}

template <typename T>
void gelu_grad(const Run& run) {
  const T* dy = run.in<T>(0);
  const T* x = run.in<T>(1);
  T* dx = run.out<T>();
  const GeluApproximation approximate = run.attrs<GeluAttributes>().approximate;
  for (int64_t i = 0; i < run.out_shape().elements(); ++i) {
    const Normal<T> n = normal(approximate, x[i]);
    dx[i] = dy[i] * (n.below + x[i] * n.density);
  }
}

const RegisterKernel kForward{"ref", "gelu", prepare<gelu<float>, gelu<double>>};
const RegisterKernel kGrad{"ref", "gelu_grad", prepare<gelu_grad<float>, gelu_grad<double>>};

}  // namespace
}  // namespace crossbow::ref
