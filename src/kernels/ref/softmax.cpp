#include "ops/softmax.h"

#include <algorithm>

#include "kernels/ref/ref.h"

namespace crossbow::ref {
namespace {

/// The largest element is subtracted first, so that no exponential overflows.
template <typename T>
void softmax(const Run& run) {
  const int64_t rows = run.out_shape()[0], classes = run.out_shape()[1];
  for (int64_t n = 0; n < rows; ++n) {
    const T* x = run.in<T>(0) + n * classes;
    T* y = run.out<T>() + n * classes;
    const T largest = *std::max_element(x, x + classes);
    T sum = 0;
    for (int64_t c = 0; c < classes; ++c) sum += y[c] = std::exp(x[c] - largest);
    for (int64_t c = 0; c < classes; ++c) y[c] /= sum;
  }
}

template <typename T>
void softmax_grad(const Run& run) {
  const int64_t rows = run.out_shape()[0], classes = run.out_shape()[1];
  for (int64_t n = 0; n < rows; ++n) {
    const T* dy = run.in<T>(0) + n * classes;
    const T* y = run.in<T>(1) + n * classes;
    T* dx = run.out<T>() + n * classes;
    T dot = 0;
    for (int64_t c = 0; c < classes; ++c) dot += dy[c] * y[c];
    for (int64_t c = 0; c < classes; ++c) dx[c] = y[c] * (dy[c] - dot);
  }
}

const RegisterKernel kForward{"ref", "softmax", prepare<softmax<float>, softmax<double>>};
const RegisterKernel kGrad{"ref", "softmax_grad",
                           prepare<softmax_grad<float>, softmax_grad<double>>};

}  // namespace
}  // namespace crossbow::ref
