#include "ops/dense.h"

#include <algorithm>

#include "kernels/ref/ref.h"

namespace crossbow::ref {
namespace {

template <typename T>
void dense(const Run& run) {
  const T* x = run.in<T>(0);
  const T* weights = run.in<T>(1);
  const T* bias = run.in<T>(2);
  T* y = run.out<T>();
  const Activation activation = run.attrs<DenseAttributes>().activation;
  const int64_t rows = run.out_shape()[0], outputs = run.out_shape()[1];
  const int64_t features = run.in_shape(1)[1];
  for (int64_t n = 0; n < rows; ++n) {
    for (int64_t o = 0; o < outputs; ++o) {
      T sum = bias ? bias[o] : 0;
      for (int64_t c = 0; c < features; ++c) sum += x[n * features + c] * weights[o * features + c];
      y[n * outputs + o] = activate(activation, sum);
    }
  }
}

template <typename T>
void dense_grad_input(const Run& run) {
  const T* dy = run.in<T>(0);
  const T* weights = run.in<T>(1);
  T* dx = run.out<T>();
  const int64_t rows = run.in_shape(0)[0], outputs = run.in_shape(0)[1];
  const int64_t features = run.in_shape(1)[1];
  std::fill_n(dx, rows * features, T{0});
  for (int64_t n = 0; n < rows; ++n) {
    for (int64_t o = 0; o < outputs; ++o) {
      for (int64_t c = 0; c < features; ++c) {
        dx[n * features + c] += dy[n * outputs + o] * weights[o * features + c];
      }
    }
  }
}

template <typename T>
void dense_grad_weights(const Run& run) {
  const T* x = run.in<T>(0);
  const T* dy = run.in<T>(1);
  T* dw = run.out<T>(0);
  T* db = run.attrs<DenseGradWeightsAttributes>().with_bias ? run.out<T>(1) : nullptr;
  const int64_t rows = run.in_shape(1)[0], outputs = run.in_shape(1)[1];
  const int64_t features = run.out_shape(0)[1];
  std::fill_n(dw, outputs * features, T{0});
  if (db) std::fill_n(db, outputs, T{0});
  for (int64_t n = 0; n < rows; ++n) {
    for (int64_t o = 0; o < outputs; ++o) {
      const T d = dy[n * outputs + o];
      for (int64_t c = 0; c < features; ++c) dw[o * features + c] += x[n * features + c] * d;
      if (db) db[o] += d;
    }
  }
}

const RegisterKernel kForward{"ref", "dense", prepare<dense<float>, dense<double>>};
const RegisterKernel kGradInput{"ref", "dense_grad_input",
                                prepare<dense_grad_input<float>, dense_grad_input<double>>};
const RegisterKernel kGradWeights{"ref", "dense_grad_weights",
                                  prepare<dense_grad_weights<float>, dense_grad_weights<double>>};

}  // namespace
}  // namespace crossbow::ref
