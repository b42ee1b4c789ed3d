#include "ops/adaptive_pool.h"

#include "kernels/cuda/prepare.h"

namespace crossbow::CROSSBOW_GRID {
namespace {

/// Of activations [batch, channels, height, width], whose channels lie last.
struct Parts {
  int64_t channels;
  PartAxis rows, columns;

  Parts(const Shape& x, const Shape& y) : channels(x[1]), rows{x[2], y[2]}, columns{x[3], y[3]} {}

  CROSSBOW_GPU float pixels(int64_t row, int64_t column) const {
    return static_cast<float>((rows.end(row) - rows.begin(row)) *
                              (columns.end(column) - columns.begin(column)));
  }
};

template <typename T>
struct Average {
  Parts parts;
  const T* x;
  T* y;

  CROSSBOW_GPU void operator()(int64_t i) const {
    const PartAxis &rows = parts.rows, &columns = parts.columns;
    const int64_t channel = i % parts.channels, place = i / parts.channels;
    const int64_t column = place % columns.parts, row = place / columns.parts % rows.parts;
    const int64_t image = place / (columns.parts * rows.parts);
    float sum = 0;
    for (int64_t h = rows.begin(row); h < rows.end(row); ++h) {
      for (int64_t w = columns.begin(column); w < columns.end(column); ++w) {
        sum += x[((image * rows.size + h) * columns.size + w) * parts.channels + channel];
      }
    }
    y[i] = sum / parts.pixels(row, column);
  }
};

template <typename T>
struct AverageGrad {
  Parts parts;
  const T* dy;
  T* dx;

  CROSSBOW_GPU void operator()(int64_t i) const {
    const PartAxis &rows = parts.rows, &columns = parts.columns;
    const int64_t channel = i % parts.channels, place = i / parts.channels;
    const int64_t w = place % columns.size, h = place / columns.size % rows.size;
    const int64_t image = place / (columns.size * rows.size);
    float sum = 0;
    for (int64_t row = rows.first(h); row <= rows.last(h); ++row) {
      for (int64_t column = columns.first(w); column <= columns.last(w); ++column) {
        const int64_t at = (image * rows.parts + row) * columns.parts + column;
        sum += dy[at * parts.channels + channel] / parts.pixels(row, column);
      }
    }
    dx[i] = sum;
  }
};

PreparedKernel prepare(const PrepareContext& context) {
  const Layout x = input_layout(context, 0);
  const Layout y = activation_layout(context.node.outputs[0].shape, context.precision);
  return elementwise({x}, {y}, y, [=](auto t, const Operands& o) {
    using T = decltype(t);
    return Average<T>{{x.shape, y.shape}, as<T>(o.inputs[0]), as<T>(o.outputs[0])};
  });
}

PreparedKernel prepare_grad(const PrepareContext& context) {
  const Layout dy = input_layout(context, 0);
  const Layout dx = activation_layout(context.node.outputs[0].shape, context.precision);
  return elementwise({dy}, {dx}, dx, [=](auto t, const Operands& o) {
    using T = decltype(t);
    return AverageGrad<T>{{dx.shape, dy.shape}, as<T>(o.inputs[0]), as<T>(o.outputs[0])};
  });
}

const RegisterKernel kPool{kDevice, "adaptive_avg_pool", prepare};
const RegisterKernel kGrad{kDevice, "adaptive_avg_pool_grad", prepare_grad};

}  // namespace
}  // namespace crossbow::CROSSBOW_GRID
