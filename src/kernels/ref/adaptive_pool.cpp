#include "ops/adaptive_pool.h"

#include <algorithm>

#include "kernels/ref/ref.h"

namespace crossbow::ref {
namespace {

/// Calls visit(position in y, position in x, pixels of the part) for every pixel of every part.
template <typename Visit>
void for_each_pixel(const Shape& x, const Shape& y, Visit visit) {
  const PartAxis rows{x[2], y[2]}, columns{x[3], y[3]};
  int64_t at = 0;
  for (int64_t plane = 0; plane < y[0] * y[1]; ++plane) {
    for (int64_t oh = 0; oh < y[2]; ++oh) {
      for (int64_t ow = 0; ow < y[3]; ++ow, ++at) {
        const int64_t height = rows.end(oh) - rows.begin(oh);
        const int64_t width = columns.end(ow) - columns.begin(ow);
        for (int64_t h = rows.begin(oh); h < rows.end(oh); ++h) {
          for (int64_t w = columns.begin(ow); w < columns.end(ow); ++w) {
            visit(at, (plane * x[2] + h) * x[3] + w, height * width);
          }
        }
      }
    }
  }
}

template <typename T>
void pool(const Run& run) {
  const T* x = run.in<T>(0);
  T* y = run.out<T>();
  std::fill_n(y, run.out_shape().elements(), T{0});
  for_each_pixel(run.in_shape(0), run.out_shape(), [=](int64_t to, int64_t from, int64_t pixels) {
    y[to] += x[from] / static_cast<T>(pixels);
  });
}

template <typename T>
void pool_grad(const Run& run) {
  const T* dy = run.in<T>(0);
  T* dx = run.out<T>();
  std::fill_n(dx, run.out_shape().elements(), T{0});
  for_each_pixel(run.out_shape(), run.in_shape(0), [=](int64_t from, int64_t to, int64_t pixels) {
    dx[to] += dy[from] / static_cast<T>(pixels);
  });
}

const RegisterKernel kPool{"ref", "adaptive_avg_pool", prepare<pool<float>, pool<double>>};
const RegisterKernel kGrad{"ref", "adaptive_avg_pool_grad",
                           prepare<pool_grad<float>, pool_grad<double>>};

}  // namespace
}  // namespace crossbow::ref
