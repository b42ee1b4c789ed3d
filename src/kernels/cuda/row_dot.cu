#include "ops/row_dot.h"

#include "kernels/cuda/copy.h"
#include "kernels/cuda/rows.h"

namespace crossbow::CROSSBOW_GRID {
namespace {

template <typename T>
struct Dot {
  Rows rows;
  const T *a, *b;
  T* y;

  CROSSBOW_GPU void operator()(const Thread& t) const {
    rows.for_each(t, [&](int64_t row, bool exists) {
      const int64_t first = row * rows.columns;
      float sum = 0;
      RowOf<T>{a + first, rows.columns, exists}.for_each(
          t, [&](int64_t c) { sum += static_cast<float>(a[first + c]) * b[first + c]; });
      sum = sum_of_warp(t, sum);
      if (exists && t.rank() % kWarp == 0) y[row] = sum;
    });
  }
};

template <typename T>
struct DotGrad {
  int64_t columns;
  const T *dy, *a, *b;
  T *da, *db;

  CROSSBOW_GPU void operator()(int64_t i) const {
    const float d = dy[i / columns], by_a = d * b[i], by_b = d * a[i];
    da[i] = by_a;
    db[i] = by_b;
  }
};

template <typename T>
struct DecayGrad {
  float factor;
  const T *dy, *x;
  T* dx;

  CROSSBOW_GPU void operator()(int64_t i) const { dx[i] = dy[i] + factor * x[i]; }
};

Layout rows_layout(const PrepareContext& context, size_t input) {
  return Layout::plain(context.input_type(input).shape, context.precision);
}

PreparedKernel prepare_dot(const PrepareContext& context) {
  const Layout x = rows_layout(context, 0);
  const Rows rows{x.shape[0], x.shape[1]};
  const Layout y = Layout::plain({rows.count, 1}, x.dtype);
  return on_grid({x, x}, {y}, x.dtype, rows.grid(), [=](auto t, const Operands& o) {
    using T = decltype(t);
    return Dot<T>{rows, as<T>(o.inputs[0]), as<T>(o.inputs[1]), as<T>(o.outputs[0])};
  });
}

PreparedKernel prepare_dot_grad(const PrepareContext& context) {
  const Layout dy = rows_layout(context, 0), x = rows_layout(context, 1);
  return elementwise({dy, x, x}, {x, x}, x, [columns = x.shape[1]](auto t, const Operands& o) {
    using T = decltype(t);
    return DotGrad<T>{columns,
                      as<T>(o.inputs[0]),
                      as<T>(o.inputs[1]),
                      as<T>(o.inputs[2]),
                      as<T>(o.outputs[0]),
                      as<T>(o.outputs[1])};
  });
}

PreparedKernel prepare_decay(const PrepareContext& context) {
  const Layout x = input_layout(context, 0);
  return copying(x, x);
}

PreparedKernel prepare_decay_grad(const PrepareContext& context) {
  const Layout x = input_layout(context, 1);
  const float decay = context.node.attrs<RowDecayAttributes>().decay;
  const float factor = 2 * decay / static_cast<float>(x.shape[0]);
  return elementwise({x, x}, {x}, x, [factor](auto t, const Operands& o) {
    using T = decltype(t);
    return DecayGrad<T>{factor, as<T>(o.inputs[0]), as<T>(o.inputs[1]), as<T>(o.outputs[0])};
  });
}

const RegisterKernel kDot{kDevice, "row_dot", prepare_dot};
const RegisterKernel kDotGrad{kDevice, "row_dot_grad", prepare_dot_grad};
const RegisterKernel kDecay{kDevice, "row_decay", prepare_decay};
const RegisterKernel kDecayGrad{kDevice, "row_decay_grad", prepare_decay_grad};

}  // namespace
}  // namespace crossbow::CROSSBOW_GRID
