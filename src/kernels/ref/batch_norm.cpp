#include "ops/batch_norm.h"

#include <algorithm>

#include "kernels/ref/ref.h"

namespace crossbow::ref {
namespace {

/// Calls visit(i) with the row-major position of every element of channel c.
template <typename Visit>
void for_channel(const Shape& x, int64_t c, Visit visit) {
  const int64_t positions = x.elements_from(2);
  for (int64_t n = 0; n < x[0]; ++n) {
    for (int64_t p = 0; p < positions; ++p) visit((n * x[1] + c) * positions + p);
  }
}

template <typename T>
struct Moments {
  T mean, variance;  // biased
};

template <typename T>
Moments<T> moments(const Shape& shape, int64_t c, const T* x) {
  const T count = static_cast<T>(shape.elements() / shape[1]);
  T sum = 0, squares = 0;
  for_channel(shape, c, [&](int64_t i) { sum += x[i]; });
  const T mean = sum / count;
  for_channel(shape, c, [&](int64_t i) { squares += (x[i] - mean) * (x[i] - mean); });
  return {mean, squares / count};
}

template <typename T>
void batch_norm(const Run& run) {
  const auto& a = run.attrs<BatchNormAttributes>();
  const Shape& shape = run.in_shape(0);
  const T* x = run.in<T>(0);
  const T* scale = run.in<T>(1);
  const T* shift = run.in<T>(2);
  T* running_mean = run.state<T>(3);
  T* running_variance = run.state<T>(4);
  const T* residual = run.in<T>(5);
  T* y = run.out<T>(0);
  for (int64_t c = 0; c < shape[1]; ++c) {
    const Moments<T> used =
        a.training ? moments(shape, c, x) : Moments<T>{running_mean[c], running_variance[c]};
    const T inverse_std = 1 / std::sqrt(used.variance + T{a.epsilon});
    if (a.training) {
      const T momentum = a.momentum;
      const auto move = [&](T& running, T batch) {
        const T kept = momentum == 0 ? 0 : momentum * running;  // not 0·∞
        running = kept + (1 - momentum) * batch;
      };
      move(running_mean[c], used.mean);
      move(running_variance[c], used.variance);
      run.out<T>(1)[c] = used.mean;
      run.out<T>(2)[c] = inverse_std;
    }
    for_channel(shape, c, [&](int64_t i) {
      T value = scale[c] * (x[i] - used.mean) * inverse_std + shift[c];
      if (residual) value += residual[i];
      y[i] = activate(a.activation, value);
    });
  }
}

/// With g = dy·activation'(y) and x̂ = (x − mean)·inverse_std, sums over a channel's m elements:
/// dshift = Σg, dscale = Σ g·x̂, dx = scale·inverse_std·(g − dshift/m − x̂·dscale/m).
template <typename T>
void batch_norm_grad(const Run& run) {
  const auto& a = run.attrs<BatchNormGradAttributes>();
  const Shape& shape = run.in_shape(1);
  const T* dy = run.in<T>(0);
  const T* x = run.in<T>(1);
  const T* scale = run.in<T>(2);
  const T* shift = run.in<T>(3);
  const T* mean = run.in<T>(4);
  const T* inverse_std = run.in<T>(5);
  const T* y = run.in<T>(6);
  T* dx = run.out<T>(0);
  T* dresidual = a.residual ? run.out<T>(3) : nullptr;
  const T count = static_cast<T>(shape.elements() / shape[1]);
  for (int64_t c = 0; c < shape[1]; ++c) {
    const auto normalised = [&](int64_t i) { return (x[i] - mean[c]) * inverse_std[c]; };
    const auto g = [&](int64_t i) {
      const T output = y ? y[i] : scale[c] * normalised(i) + shift[c];
      return dy[i] * derivative(a.activation, output);
    };
    T dscale = 0, dshift = 0;
    for_channel(shape, c, [&](int64_t i) {
      dscale += g(i) * normalised(i);
      dshift += g(i);
    });
    for_channel(shape, c, [&](int64_t i) {
      const T gradient = g(i);  // before dx, which may lie in dy's place
      dx[i] =
          scale[c] * inverse_std[c] * (gradient - dshift / count - normalised(i) * dscale / count);
      if (dresidual) dresidual[i] = gradient;
    });
    run.out<T>(1)[c] = dscale;
    run.out<T>(2)[c] = dshift;
  }
}

const RegisterKernel kForward{"ref", "batch_norm", prepare<batch_norm<float>, batch_norm<double>>};
const RegisterKernel kGrad{"ref", "batch_norm_grad",
                           prepare<batch_norm_grad<float>, batch_norm_grad<double>>};

}  // namespace
}  // namespace crossbow::ref
