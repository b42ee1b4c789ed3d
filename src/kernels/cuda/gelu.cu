#include "ops/gelu.h"

#include <cmath>
#include <numbers>

#include "kernels/cuda/prepare.h"

namespace crossbow::CROSSBOW_GRID {
namespace {

/// Φ(x) and its derivative.
struct Normal {
  float below, density;
};

CROSSBOW_GPU Normal normal(GeluApproximation approximate, float x) {
  constexpr float kRootOf2 = std::numbers::sqrt2_v<float>;
  constexpr float kPeak = std::numbers::inv_sqrtpi_v<float> / kRootOf2;  // 1/√(2π)
  if (approximate == GeluApproximation::none) {
    return {erfcf(-x / kRootOf2) / 2, kPeak * expf(-x * x / 2)};
  }
  constexpr float kCubic = 0.044715F;
  const float t = tanhf(2 * kPeak * (x + kCubic * x * x * x));
  return {(1 + t) / 2, (1 - t * t) * kPeak * (1 + 3 * kCubic * x * x)};
}

template <typename T>
struct Gelu {
  GeluApproximation approximate;
  const T* x;
  T* y;

  CROSSBOW_GPU void operator()(int64_t i) const { y[i] = x[i] * normal(approximate, x[i]).below; }
};

template <typename T>
struct GeluGrad {
  GeluApproximation approximate;
  const T *dy, *x;
  T* dx;

  CROSSBOW_GPU void operator()(int64_t i) const {
    const Normal n = normal(approximate, x[i]);
    dx[i] = dy[i] * (n.below + x[i] * n.density);
  }
};

PreparedKernel prepare(const PrepareContext& context) {
  const Layout x = input_layout(context, 0);
  const GeluApproximation approximate = context.node.attrs<GeluAttributes>().approximate;
  return elementwise({x}, {x}, x, [=](auto t, const Operands& o) {
    using T = decltype(t);
    return Gelu<T>{approximate, as<T>(o.inputs[0]), as<T>(o.outputs[0])};
  });
}

PreparedKernel prepare_grad(const PrepareContext& context) {
  const Layout x = input_layout(context, 0);
  const GeluApproximation approximate = context.node.attrs<GeluAttributes>().approximate;
  return elementwise({x, x}, {x}, x, [=](auto t, const Operands& o) {
    using T = decltype(t);
    return GeluGrad<T>{approximate, as<T>(o.inputs[0]), as<T>(o.inputs[1]), as<T>(o.outputs[0])};
  });
}

const RegisterKernel kForward{kDevice, "gelu", prepare};
const RegisterKernel kGrad{kDevice, "gelu_grad", prepare_grad};

}  // namespace
}  // namespace crossbow::CROSSBOW_GRID
