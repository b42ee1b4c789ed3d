#include "ops/sparse_dense.h"

#include <algorithm>

#include "kernels/ref/ref.h"

namespace crossbow::ref {
namespace {

/// Calls f(n, c, value) for each number of each row n, c being its column.
template <typename T, typename F>
void for_each_number(const Run& run, const F& f) {
  const T* values = run.in<T>(0);
  const int32_t* columns = run.in<int32_t>(1);
  const int32_t* extents = run.in<int32_t>(2);
  for (int64_t n = 0; n < run.in_shape(2)[0]; ++n) {
    for (int32_t i = extents[2 * n]; i < extents[2 * n + 1]; ++i) f(n, columns[i], values[i]);
  }
}

template <typename T>
void sparse_dense(const Run& run) {
  const T* weights = run.in<T>(3);
  const T* bias = run.in<T>(4);
  T* y = run.out<T>();
  const int64_t rows = run.out_shape()[0], outputs = run.out_shape()[1];
  const int64_t features = run.in_shape(3)[1];
  for (int64_t i = 0; i < rows * outputs; ++i) y[i] = bias ? bias[i % outputs] : 0;
  for_each_number<T>(run, [&](int64_t n, int64_t c, T value) {
    for (int64_t o = 0; o < outputs; ++o) y[n * outputs + o] += value * weights[o * features + c];
  });
}

template <typename T>
void sparse_dense_grad_weights(const Run& run) {
  const T* dy = run.in<T>(3);
  T* dw = run.out<T>(0);
  const int64_t rows = run.in_shape(3)[0], outputs = run.in_shape(3)[1];
  const int64_t features = run.out_shape(0)[1];
  std::fill_n(dw, outputs * features, T{0});
  for_each_number<T>(run, [&](int64_t n, int64_t c, T value) {
    for (int64_t o = 0; o < outputs; ++o) dw[o * features + c] += value * dy[n * outputs + o];
  });
  if (!run.attrs<SparseDenseGradAttributes>().with_bias) return;
  T* db = run.out<T>(1);
  std::fill_n(db, outputs, T{0});
  for (int64_t i = 0; i < rows * outputs; ++i) db[i % outputs] += dy[i];
}

const RegisterKernel kForward{"ref", "sparse_dense",
                              prepare<sparse_dense<float>, sparse_dense<double>>};
const RegisterKernel kGradWeights{
    "ref", "sparse_dense_grad_weights",
    prepare<sparse_dense_grad_weights<float>, sparse_dense_grad_weights<double>>};

}  // namespace
}  // namespace crossbow::ref
