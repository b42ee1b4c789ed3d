#include "ops/pool.h"

#include <algorithm>

#include "kernels/ref/ref.h"

namespace crossbow::ref {
namespace {

/// What a window reads along one axis: every step-th of the pixels [begin, end).
struct Extent {
  int64_t begin, end, step;
  int64_t counted;  // in an average's divisor
};

Extent extent(int64_t position, const WindowAxis& axis, int64_t size, bool count_include_pad) {
  Extent e{size, size, axis.dilation, 0};
  for (int64_t k = 0; k < axis.kernel; ++k) {
    const int64_t at = axis.start(position) + k * axis.dilation;
    const bool inside = at >= 0 && at < size;
    if (inside) e.begin = std::min(e.begin, at);
    if (inside || (count_include_pad && at < size + axis.after)) ++e.counted;
  }
  e.end = std::min(size, axis.start(position) + axis.span());
  return e;
}

/// The rows and columns of the input that an output position covers.
struct Cover {
  Extent rows, columns;

  /// Calls visit(position in the plane) in row-major order.
  template <typename Visit>
  void for_each(int64_t width, Visit visit) const {
    for (int64_t h = rows.begin; h < rows.end; h += rows.step) {
      for (int64_t w = columns.begin; w < columns.end; w += columns.step) visit(h * width + w);
    }
  }
  template <typename T>
  T divisor() const {
    return static_cast<T>(rows.counted * columns.counted);
  }
};

/// Calls visit(position in y, offset of its plane in x, cover) for every output.
template <typename Visit>
void for_each_window(const PoolAttributes& a, const Shape& x, const Shape& y, Visit visit) {
  const auto [rows, columns] = a.axes();
  int64_t y_at = 0;
  for (int64_t plane = 0; plane < y[0] * y[1]; ++plane) {
    for (int64_t oh = 0; oh < y[2]; ++oh) {
      const Extent h = extent(oh, rows, x[2], a.count_include_pad);
      for (int64_t ow = 0; ow < y[3]; ++ow, ++y_at) {
        const Extent w = extent(ow, columns, x[3], a.count_include_pad);
        visit(y_at, plane * x[2] * x[3], Cover{h, w});
      }
    }
  }
}

template <typename T>
void max_pool(const Run& run) {
  const T* x = run.in<T>(0);
  T* y = run.out<T>(0);
  int32_t* positions = run.out<int32_t>(1);  // in the plane of x
  const int64_t width = run.in_shape(0)[3];
  for_each_window(run.attrs<PoolAttributes>(), run.in_shape(0), run.out_shape(0),
                  [=](int64_t yi, int64_t plane, const Cover& cover) {
                    int64_t best = cover.rows.begin * width + cover.columns.begin;
                    cover.for_each(width, [&](int64_t at) {
                      if (x[plane + at] > x[plane + best]) best = at;
                    });
                    y[yi] = x[plane + best];
                    positions[yi] = static_cast<int32_t>(best);
                  });
}

template <typename T>
void max_pool_grad(const Run& run) {
  const T* dy = run.in<T>(0);
  const int32_t* positions = run.in<int32_t>(1);
  T* dx = run.out<T>();
  const int64_t y_plane = run.in_shape(0).elements_from(2);
  const int64_t x_plane = run.out_shape().elements_from(2);
  std::fill_n(dx, run.out_shape().elements(), T{0});
  for (int64_t i = 0; i < run.in_shape(0).elements(); ++i) {
    dx[i / y_plane * x_plane + positions[i]] += dy[i];
  }
}

template <typename T>
void avg_pool(const Run& run) {
  const T* x = run.in<T>(0);
  T* y = run.out<T>();
  const int64_t width = run.in_shape(0)[3];
  for_each_window(run.attrs<PoolAttributes>(), run.in_shape(0), run.out_shape(),
                  [=](int64_t yi, int64_t plane, const Cover& cover) {
                    T sum = 0;
                    cover.for_each(width, [&](int64_t at) { sum += x[plane + at]; });
                    y[yi] = sum / cover.divisor<T>();
                  });
}

template <typename T>
void avg_pool_grad(const Run& run) {
  const T* dy = run.in<T>(0);
  T* dx = run.out<T>();
  const int64_t width = run.out_shape()[3];
  std::fill_n(dx, run.out_shape().elements(), T{0});
  for_each_window(run.attrs<PoolGradAttributes>(), run.out_shape(), run.in_shape(0),
                  [=](int64_t yi, int64_t plane, const Cover& cover) {
                    const T share = dy[yi] / cover.divisor<T>();
                    cover.for_each(width, [&](int64_t at) { dx[plane + at] += share; });
                  });
}

const RegisterKernel kMax{"ref", "max_pool", prepare<max_pool<float>, max_pool<double>>};
const RegisterKernel kMaxGrad{"ref", "max_pool_grad",
                              prepare<max_pool_grad<float>, max_pool_grad<double>>};
const RegisterKernel kAvg{"ref", "avg_pool", prepare<avg_pool<float>, avg_pool<double>>};
const RegisterKernel kAvgGrad{"ref", "avg_pool_grad",
                              prepare<avg_pool_grad<float>, avg_pool_grad<double>>};

}  // namespace
}  // namespace crossbow::ref
