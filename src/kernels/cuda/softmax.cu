#include "ops/softmax.h"

#include "kernels/cuda/prepare.h"
#include "kernels/cuda/rows.h"

namespace crossbow::CROSSBOW_GRID {
namespace {

template <typename T>
struct Softmax {
  Rows shape;
  const T* x;
  T* y;

  CROSSBOW_GPU void operator()(const Thread& t) const {
    shape.for_each(t, [&](int64_t row, bool exists) {
      const RowOf<T> in{x + row * shape.columns, shape.columns, exists};
      const Exponentials of = exponentials(t, in);
      in.for_each(t, [&](int64_t c) {
        y[row * shape.columns + c] = expf(in.data[c] - of.largest) / of.sum;
      });
    });
  }
};

template <typename T>
struct SoftmaxGrad {
  Rows shape;
  const T *dy, *y;
  T* dx;

  CROSSBOW_GPU void operator()(const Thread& t) const {
    shape.for_each(t, [&](int64_t row, bool exists) {
      const int64_t at = row * shape.columns;
      const RowOf<T> in{dy + at, shape.columns, exists};
      float dot = 0;
      in.for_each(t, [&](int64_t c) { dot += in.data[c] * y[at + c]; });
      dot = sum_of_warp(t, dot);
      in.for_each(t, [&](int64_t c) { dx[at + c] = y[at + c] * (in.data[c] - dot); });
    });
  }
};

PreparedKernel prepare(const PrepareContext& context) {
  const Layout x = input_layout(context, 0);
  const Rows shape{x.shape[0], x.shape[1]};
  return on_grid({x}, {x}, x.dtype, shape.grid(), [=](auto t, const Operands& o) {
    using T = decltype(t);
    return Softmax<T>{shape, as<T>(o.inputs[0]), as<T>(o.outputs[0])};
  });
}

PreparedKernel prepare_grad(const PrepareContext& context) {
  const Layout x = input_layout(context, 0);
  const Rows shape{x.shape[0], x.shape[1]};
  return on_grid({x, x}, {x}, x.dtype, shape.grid(), [=](auto t, const Operands& o) {
    using T = decltype(t);
    return SoftmaxGrad<T>{shape, as<T>(o.inputs[0]), as<T>(o.inputs[1]), as<T>(o.outputs[0])};
  });
}

const RegisterKernel kForward{kDevice, "softmax", prepare};
const RegisterKernel kGrad{kDevice, "softmax_grad", prepare_grad};

}  // namespace
}  // namespace crossbow::CROSSBOW_GRID
