#include "ops/scale_bias.h"

#include <algorithm>

#include "kernels/ref/ref.h"

namespace crossbow::ref {
namespace {

template <typename T>
void scale_bias(const Run& run) {
  const T* x = run.in<T>(0);
  const T* scale = run.in<T>(1);
  const T* bias = run.in<T>(2);
  T* y = run.out<T>();
  const Shape& shape = run.out_shape();
  const int64_t positions = shape.elements_from(2);
  for (int64_t i = 0; i < shape.elements(); ++i) {
    const int64_t c = i / positions % shape[1];
    y[i] = (scale ? x[i] * scale[c] : x[i]) + (bias ? bias[c] : 0);
  }
}

template <typename T>
void scale_bias_grad(const Run& run) {
  const auto& a = run.attrs<ScaleBiasGradAttributes>();
  const T* dy = run.in<T>(0);
  const T* x = run.in<T>(1);
  const T* scale = run.in<T>(2);
  T* dx = run.out<T>(0);
  T* dscale = a.scale ? run.out<T>(1) : nullptr;
  T* dbias = a.bias ? run.out<T>(a.scale ? 2 : 1) : nullptr;
  const Shape& shape = run.in_shape(0);
  const int64_t positions = shape.elements_from(2);
  if (dscale) std::fill_n(dscale, shape[1], T{0});
  if (dbias) std::fill_n(dbias, shape[1], T{0});
  for (int64_t i = 0; i < shape.elements(); ++i) {
    const int64_t c = i / positions % shape[1];
    const T gradient = dy[i];  // before dx, which may lie in dy's place
    if (dscale) dscale[c] += gradient * x[i];
    if (dbias) dbias[c] += gradient;
    dx[i] = scale ? gradient * scale[c] : gradient;
  }
}

const RegisterKernel kForward{"ref", "scale_bias", prepare<scale_bias<float>, scale_bias<double>>};
const RegisterKernel kGrad{"ref", "scale_bias_grad",
                           prepare<scale_bias_grad<float>, scale_bias_grad<double>>};

}  // namespace
}  // namespace crossbow::ref
