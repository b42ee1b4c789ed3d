#include "ops/elementwise.h"

#include "kernels/cuda/prepare.h"

namespace crossbow::CROSSBOW_GRID {
namespace {

template <typename T>
struct Add {
  const T *a, *b;
  T* y;
  bool relu;

  CROSSBOW_GPU void operator()(int64_t i) const {
    const float sum = a[i] + b[i];
    y[i] = relu && sum < 0 ? 0 : sum;
  }
};

template <typename T>
struct Multiply {
  const T *a, *b;
  T* y;

  CROSSBOW_GPU void operator()(int64_t i) const { y[i] = a[i] * b[i]; }
};

PreparedKernel prepare_add(const PrepareContext& context) {
  const Layout x = input_layout(context, 0);
  const bool relu = context.node.attrs<AddAttributes>().relu;
  return elementwise({x, x}, {x}, x, [=](auto t, const Operands& o) {
    using T = decltype(t);
    return Add<T>{as<T>(o.inputs[0]), as<T>(o.inputs[1]), as<T>(o.outputs[0]), relu};
  });
}

PreparedKernel prepare_multiply(const PrepareContext& context) {
  const Layout x = input_layout(context, 0);
  return elementwise({x, x}, {x}, x, [](auto t, const Operands& o) {
    using T = decltype(t);
    return Multiply<T>{as<T>(o.inputs[0]), as<T>(o.inputs[1]), as<T>(o.outputs[0])};
  });
}

const RegisterKernel kAdd{kDevice, "add", prepare_add};
const RegisterKernel kMultiply{kDevice, "multiply", prepare_multiply};

}  // namespace
}  // namespace crossbow::CROSSBOW_GRID
