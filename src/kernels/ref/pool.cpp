#include "ops/pool.h"

#include <algorithm>

#include "kernels/ref/ref.h"

namespace crossbow::ref {
namespace {

/// The rows [h0, h1) and columns [w0, w1) of the input that an output position covers.
struct Window {
  int64_t h0, h1, w0, w1;
  double divisor;  // of an average
};

/// One dimension of a window: where it starts and ends, and its length with the padding that
/// counts.
struct Extent {
  int64_t begin, end, counted;
};

Extent extent(int64_t position, int64_t kernel, int64_t size, const PoolAttributes& a) {
  const int64_t begin = position * a.stride - a.padding;
  const int64_t end = std::min(begin + kernel, size + a.padding);  // never beyond the padding
  const int64_t inner_begin = std::max<int64_t>(begin, 0), inner_end = std::min(end, size);
  return {inner_begin, inner_end, a.count_include_pad ? end - begin : inner_end - inner_begin};
}

/// Calls visit(position in y, offset of its plane in x, window) for every output.
template <typename Visit>
void for_each_window(const PoolAttributes& a, const Shape& x, const Shape& y, Visit visit) {
  int64_t y_at = 0;
  for (int64_t plane = 0; plane < y[0] * y[1]; ++plane) {
    for (int64_t oh = 0; oh < y[2]; ++oh) {
      const Extent h = extent(oh, a.kernel_h, x[2], a);
      for (int64_t ow = 0; ow < y[3]; ++ow, ++y_at) {
        const Extent w = extent(ow, a.kernel_w, x[3], a);
        visit(y_at, plane * x[2] * x[3],
              Window{h.begin, h.end, w.begin, w.end, static_cast<double>(h.counted * w.counted)});
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
                  [=](int64_t yi, int64_t plane, const Window& window) {
                    int64_t best = window.h0 * width + window.w0;
                    for (int64_t h = window.h0; h < window.h1; ++h) {
                      for (int64_t w = window.w0; w < window.w1; ++w) {
                        if (x[plane + h * width + w] > x[plane + best]) best = h * width + w;
                      }
                    }
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
                  [=](int64_t yi, int64_t plane, const Window& window) {
                    T sum = 0;
                    for (int64_t h = window.h0; h < window.h1; ++h) {
                      for (int64_t w = window.w0; w < window.w1; ++w) {
                        sum += x[plane + h * width + w];
                      }
                    }
                    y[yi] = sum / static_cast<T>(window.divisor);
                  });
}

template <typename T>
void avg_pool_grad(const Run& run) {
  const T* dy = run.in<T>(0);
  T* dx = run.out<T>();
  const int64_t width = run.out_shape()[3];
  std::fill_n(dx, run.out_shape().elements(), T{0});
  for_each_window(run.attrs<PoolGradAttributes>(), run.out_shape(), run.in_shape(0),
                  [=](int64_t yi, int64_t plane, const Window& window) {
                    const T share = dy[yi] / static_cast<T>(window.divisor);
                    for (int64_t h = window.h0; h < window.h1; ++h) {
                      for (int64_t w = window.w0; w < window.w1; ++w) {
                        dx[plane + h * width + w] += share;
                      }
                    }
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
