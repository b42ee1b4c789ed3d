#include "ops/row_dot.h"

#include "kernels/ref/ref.h"

namespace crossbow::ref {
namespace {

template <typename T>
void row_dot(const Run& run) {
  const T *a = run.in<T>(0), *b = run.in<T>(1);
  const int64_t rows = run.in_shape(0)[0], columns = run.in_shape(0)[1];
  for (int64_t n = 0; n < rows; ++n) {
    T sum = 0;
    for (int64_t c = n * columns; c < (n + 1) * columns; ++c) sum += a[c] * b[c];
    run.out<T>()[n] = sum;
  }
}

template <typename T>
void row_dot_grad(const Run& run) {
  const T *dy = run.in<T>(0), *a = run.in<T>(1), *b = run.in<T>(2);
  const Shape& shape = run.in_shape(1);
  for (int64_t i = 0; i < shape.elements(); ++i) {
    run.out<T>(0)[i] = dy[i / shape[1]] * b[i];
    run.out<T>(1)[i] = dy[i / shape[1]] * a[i];
  }
}

template <typename T>
void row_decay(const Run& run) {
  for (int64_t i = 0; i < run.out_shape().elements(); ++i) run.out<T>()[i] = run.in<T>(0)[i];
}

template <typename T>
void row_decay_grad(const Run& run) {
  const T *dy = run.in<T>(0), *x = run.in<T>(1);
  const Shape& shape = run.out_shape();
  const T factor = 2 * T{run.attrs<RowDecayAttributes>().decay} / static_cast<T>(shape[0]);
  for (int64_t i = 0; i < shape.elements(); ++i) run.out<T>()[i] = dy[i] + factor * x[i];
}

const RegisterKernel kDot{"ref", "row_dot", prepare<row_dot<float>, row_dot<double>>};
const RegisterKernel kDotGrad{"ref", "row_dot_grad",
                              prepare<row_dot_grad<float>, row_dot_grad<double>>};
const RegisterKernel kDecay{"ref", "row_decay", prepare<row_decay<float>, row_decay<double>>};
const RegisterKernel kDecayGrad{"ref", "row_decay_grad",
                                prepare<row_decay_grad<float>, row_decay_grad<double>>};

}  // namespace
}  // namespace crossbow::ref
