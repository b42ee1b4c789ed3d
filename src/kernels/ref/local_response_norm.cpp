#include "ops/local_response_norm.h"

#include "kernels/ref/ref.h"

namespace crossbow::ref {
namespace {

/// Calls visit(i, first, last) for each element i, whose neighbours are the elements from `first`
/// to `last` in steps of a map.
template <typename Visit>
void for_each(const Shape& x, int64_t size, Visit visit) {
  const int64_t map = x.elements_from(2), half = size / 2;
  for (int64_t n = 0; n < x[0]; ++n) {
    for (int64_t c = 0; c < x[1]; ++c) {
      const int64_t first = std::max<int64_t>(c - half, 0), last = std::min(c + half, x[1] - 1);
      for (int64_t p = 0; p < map; ++p) {
        const auto at = [&](int64_t channel) { return (n * x[1] + channel) * map + p; };
        visit(at(c), at(first), at(last));
      }
    }
  }
}

template <typename T>
void norm(const Run& run) {
  const auto& a = run.attrs<LocalResponseNormAttributes>();
  const Shape& shape = run.in_shape(0);
  const T* x = run.in<T>(0);
  T *y = run.out<T>(0), *scale = run.out<T>(1);
  const int64_t map = shape.elements_from(2);
  for_each(shape, a.size, [&](int64_t i, int64_t first, int64_t last) {
    T squares = 0;
    for (int64_t j = first; j <= last; j += map) squares += x[j] * x[j];
    scale[i] = T{a.k} + T{a.alpha} / static_cast<T>(a.size) * squares;
    y[i] = x[i] * std::pow(scale[i], -T{a.beta});
  });
}

/// x_i is in the scales of its neighbours, and they are in its own:
/// dx_i = dy_i·scale_i^−β − 2αβ/size·x_i·Σ_j dy_j·x_j·scale_j^−(β+1).
template <typename T>
void norm_grad(const Run& run) {
  const auto& a = run.attrs<LocalResponseNormAttributes>();
  const Shape& shape = run.in_shape(1);
  const T* dy = run.in<T>(0);
  const T* x = run.in<T>(1);
  const T* scale = run.in<T>(2);
  T* dx = run.out<T>();
  const int64_t map = shape.elements_from(2);
  const T factor = 2 * T{a.alpha} * T{a.beta} / static_cast<T>(a.size);
  for_each(shape, a.size, [&](int64_t i, int64_t first, int64_t last) {
    T sum = 0;
    for (int64_t j = first; j <= last; j += map) {
      sum += dy[j] * x[j] * std::pow(scale[j], -T{a.beta} - 1);
    }
    dx[i] = dy[i] * std::pow(scale[i], -T{a.beta}) - factor * x[i] * sum;
  });
}

const RegisterKernel kForward{"ref", "local_response_norm", prepare<norm<float>, norm<double>>};
const RegisterKernel kGrad{"ref", "local_response_norm_grad",
                           prepare<norm_grad<float>, norm_grad<double>>};

}  // namespace
}  // namespace crossbow::ref
