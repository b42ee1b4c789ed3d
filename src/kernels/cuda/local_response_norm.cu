#include "ops/local_response_norm.h"

#include <cmath>

#include "kernels/cuda/prepare.h"

namespace crossbow::CROSSBOW_GRID {
namespace {

/// Which channels are an element's neighbours, where channels lie last.
struct Neighbours {
  int64_t channels, half;

  /// Σ f(j) over the neighbours j of element i.
  template <typename F>
  CROSSBOW_GPU float sum(int64_t i, const F& f) const {
    const int64_t c = i % channels;
    const int64_t before = c < half ? c : half;
    const int64_t behind = channels - 1 - c < half ? channels - 1 - c : half;
    float total = 0;
    for (int64_t j = i - before; j <= i + behind; ++j) total += f(j);
    return total;
  }
};

template <typename T>
struct Norm {
  Neighbours neighbours;
  float factor, beta, k;  // factor is alpha/size
  const T* x;
  T* y;
  float* scale;

  CROSSBOW_GPU void operator()(int64_t i) const {
    const float squares = neighbours.sum(i, [&](int64_t j) {
      const float value = x[j];
      return value * value;
    });
    scale[i] = k + factor * squares;
    y[i] = x[i] * powf(scale[i], -beta);
  }
};

template <typename T>
struct NormGrad {
  Neighbours neighbours;
  float factor, beta;  // factor is 2·alpha·beta/size
  const T *dy, *x;
  const float* scale;
  T* dx;

  CROSSBOW_GPU void operator()(int64_t i) const {
    const float sum =
        neighbours.sum(i, [&](int64_t j) { return dy[j] * x[j] * powf(scale[j], -beta - 1); });
    dx[i] = dy[i] * powf(scale[i], -beta) - factor * x[i] * sum;
  }
};

Neighbours neighbours_of(const PrepareContext& context, const Layout& x) {
  const auto& a = context.node.attrs<LocalResponseNormAttributes>();
  return {x.shape[1], a.size / 2};
}

PreparedKernel prepare(const PrepareContext& context) {
  const auto& a = context.node.attrs<LocalResponseNormAttributes>();
  const Layout x = input_layout(context, 0);
  const Neighbours neighbours = neighbours_of(context, x);
  const float factor = a.alpha / static_cast<float>(a.size), beta = a.beta, k = a.k;
  return elementwise({x}, {x, x.with_dtype(DType::f32)}, x, [=](auto t, const Operands& o) {
    using T = decltype(t);
    return Norm<T>{neighbours,
                   factor,
                   beta,
                   k,
                   as<T>(o.inputs[0]),
                   as<T>(o.outputs[0]),
                   as<float>(o.outputs[1])};
  });
}

PreparedKernel prepare_grad(const PrepareContext& context) {
  const auto& a = context.node.attrs<LocalResponseNormAttributes>();
  const Layout x = input_layout(context, 1);
  const Neighbours neighbours = neighbours_of(context, x);
  const float factor = 2 * a.alpha * a.beta / static_cast<float>(a.size), beta = a.beta;
  return elementwise({x, x, x.with_dtype(DType::f32)}, {x}, x, [=](auto t, const Operands& o) {
    using T = decltype(t);
    return NormGrad<T>{neighbours,
                       factor,
                       beta,
                       as<T>(o.inputs[0]),
                       as<T>(o.inputs[1]),
                       as<float>(o.inputs[2]),
                       as<T>(o.outputs[0])};
  });
}

const RegisterKernel kForward{kDevice, "local_response_norm", prepare};
const RegisterKernel kGrad{kDevice, "local_response_norm_grad", prepare_grad};

}  // namespace
}  // namespace crossbow::CROSSBOW_GRID
