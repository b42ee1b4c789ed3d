#include "ops/conv2d.h"

#include <algorithm>

#include "kernels/ref/ref.h"

namespace crossbow::ref {
namespace {

/// Calls visit(y, x, w) with the row-major positions of every product y[y] += x[x] * weights[w]
/// that a convolution sums; its gradients sum the same triples into the other two operands.
template <typename Visit>
void for_each_product(const Conv2dAttributes& a, const Shape& x, const Shape& w, const Shape& y,
                      Visit visit) {
  const auto [rows, columns] = a.axes(w);
  const int64_t channels = w[1], outputs_per_group = w[0] / a.groups;
  for (int64_t n = 0, y_at = 0; n < y[0]; ++n) {
    for (int64_t o = 0; o < y[1]; ++o) {
      const int64_t first_channel = o / outputs_per_group * channels;
      for (int64_t oh = 0; oh < y[2]; ++oh) {
        for (int64_t ow = 0; ow < y[3]; ++ow, ++y_at) {
          for (int64_t c = 0; c < channels; ++c) {
            for (int64_t kh = 0; kh < w[2]; ++kh) {
              const int64_t h = rows.start(oh) + kh * rows.dilation;
              if (h < 0 || h >= x[2]) continue;
              for (int64_t kw = 0; kw < w[3]; ++kw) {
                const int64_t v = columns.start(ow) + kw * columns.dilation;
                if (v < 0 || v >= x[3]) continue;
                visit(y_at, ((n * x[1] + first_channel + c) * x[2] + h) * x[3] + v,
                      ((o * channels + c) * w[2] + kh) * w[3] + kw);
              }
            }
          }
        }
      }
    }
  }
}

template <typename T>
void conv2d(const Run& run) {
  const T* x = run.in<T>(0);
  const T* weights = run.in<T>(1);
  const T* bias = run.in<T>(2);
  T* y = run.out<T>();
  const Shape& shape = run.out_shape();
  const int64_t positions = shape.elements_from(2);
  for (int64_t i = 0; i < shape.elements(); ++i) y[i] = bias ? bias[i / positions % shape[1]] : 0;
  for_each_product(run.attrs<Conv2dAttributes>(), run.in_shape(0), run.in_shape(1), shape,
                   [=](int64_t yi, int64_t xi, int64_t wi) { y[yi] += x[xi] * weights[wi]; });
}

template <typename T>
void conv2d_grad_input(const Run& run) {
  const T* dy = run.in<T>(0);
  const T* weights = run.in<T>(1);
  T* dx = run.out<T>();
  std::fill_n(dx, run.out_shape().elements(), T{0});
  for_each_product(run.attrs<Conv2dGradAttributes>(), run.out_shape(), run.in_shape(1),
                   run.in_shape(0),
                   [=](int64_t yi, int64_t xi, int64_t wi) { dx[xi] += dy[yi] * weights[wi]; });
}

template <typename T>
void conv2d_grad_weights(const Run& run) {
  const auto& a = run.attrs<Conv2dGradAttributes>();
  const T* x = run.in<T>(0);
  const T* dy = run.in<T>(1);
  T* dw = run.out<T>(0);
  const Shape& shape = run.in_shape(1);
  std::fill_n(dw, run.out_shape(0).elements(), T{0});
  for_each_product(a, run.in_shape(0), run.out_shape(0), shape,
                   [=](int64_t yi, int64_t xi, int64_t wi) { dw[wi] += x[xi] * dy[yi]; });
  if (!a.with_bias) return;
  T* db = run.out<T>(1);
  const int64_t positions = shape.elements_from(2);
  std::fill_n(db, shape[1], T{0});
  for (int64_t i = 0; i < shape.elements(); ++i) db[i / positions % shape[1]] += dy[i];
}

const RegisterKernel kForward{"ref", "conv2d", prepare<conv2d<float>, conv2d<double>>};
const RegisterKernel kGradInput{"ref", "conv2d_grad_input",
                                prepare<conv2d_grad_input<float>, conv2d_grad_input<double>>};
const RegisterKernel kGradWeights{"ref", "conv2d_grad_weights",
                                  prepare<conv2d_grad_weights<float>, conv2d_grad_weights<double>>};

}  // namespace
}  // namespace crossbow::ref
