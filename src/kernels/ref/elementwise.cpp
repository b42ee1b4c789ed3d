#include "ops/elementwise.h"

#include <algorithm>

#include "kernels/ref/ref.h"

namespace crossbow::ref {
namespace {

template <typename T>
void add(const Run& run) {
  const T* a = run.in<T>(0);
  const T* b = run.in<T>(1);
  T* y = run.out<T>();
  const bool relu = run.attrs<AddAttributes>().relu;
  for (int64_t i = 0; i < run.out_shape().elements(); ++i) {
    const T sum = a[i] + b[i];
    y[i] = relu ? std::max(sum, T{0}) : sum;
  }
}

template <typename T>
void multiply(const Run& run) {
  const T* a = run.in<T>(0);
  const T* b = run.in<T>(1);
  T* y = run.out<T>();
  for (int64_t i = 0; i < run.out_shape().elements(); ++i) y[i] = a[i] * b[i];
}

const RegisterKernel kAdd{"ref", "add", prepare<add<float>, add<double>>};
const RegisterKernel kMultiply{"ref", "multiply", prepare<multiply<float>, multiply<double>>};

}  // namespace
}  // namespace crossbow::ref
