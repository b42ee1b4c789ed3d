#include "ops/pool.h"

#include "kernels/cuda/prepare.h"

namespace crossbow::CROSSBOW_GRID {
namespace {

/// Where an element of an activation [batch, channels, height, width] lies, and back.
struct Map {
  int64_t channels, height, width;

  explicit Map(const Shape& shape) : channels(shape[1]), height(shape[2]), width(shape[3]) {}

  struct Coordinates {
    int64_t image, row, column, channel;
  };
  CROSSBOW_GPU Coordinates coordinates(int64_t i) const {
    const int64_t channel = i % channels, pixel = i / channels;
    return {pixel / (width * height), pixel / width % height, pixel % width, channel};
  }
  CROSSBOW_GPU int64_t at(int64_t image, int64_t row, int64_t column, int64_t channel) const {
    return ((image * height + row) * width + column) * channels + channel;
  }
};

/// How windows slide over a map x, each making an element of y.
struct Windows {
  WindowAxis rows, columns;
  Map x, y;
  bool count_include_pad;
  bool inside;  // all windows

  Windows(const PoolAttributes& a, const Shape& x_shape, const Shape& y_shape)
      : rows(a.axes()[0]),
        columns(a.axes()[1]),
        x(x_shape),
        y(y_shape),
        count_include_pad(a.count_include_pad),
        inside(is_inside(rows, x.height, y.height) && is_inside(columns, x.width, y.width)) {}

  /// f(row, column) of x in row-major order, for those that lie in the window of y's element.
  template <typename F>
  CROSSBOW_GPU void for_window(const Map::Coordinates& p, const F& f) const {
    for (int64_t i = 0, h = rows.start(p.row); i < rows.kernel; ++i, h += rows.dilation) {
      if (h < 0 || h >= x.height) continue;
      for (int64_t j = 0, w = columns.start(p.column); j < columns.kernel;
           ++j, w += columns.dilation) {
        if (w >= 0 && w < x.width) f(h, w);
      }
    }
  }

  /// f(row, column) of y, for the windows that cover x's element, in row-major order.
  template <typename F>
  CROSSBOW_GPU void for_covering(const Map::Coordinates& p, const F& f) const {
    for (int64_t i = rows.kernel - 1; i >= 0; --i) {
      const int64_t oh = position(rows, p.row, i);
      if (oh < 0 || oh >= y.height) continue;
      for (int64_t j = columns.kernel - 1; j >= 0; --j) {
        const int64_t ow = position(columns, p.column, j);
        if (ow >= 0 && ow < y.width) f(oh, ow);
      }
    }
  }

  /// Of an average.
  CROSSBOW_GPU float divisor(int64_t row, int64_t column) const {
    if (inside) return static_cast<float>(rows.kernel * columns.kernel);
    return static_cast<float>(counted(rows, row, x.height) * counted(columns, column, x.width));
  }

 private:
  static bool is_inside(const WindowAxis& axis, int64_t size, int64_t positions) {
    return axis.before == 0 && axis.start(positions - 1) + axis.span() <= size;
  }
  /// Of the window whose k-th pixel this is; −1 if there is none.
  CROSSBOW_GPU static int64_t position(const WindowAxis& axis, int64_t pixel, int64_t k) {
    const int64_t start = pixel + axis.before - k * axis.dilation;
    return start >= 0 && start % axis.stride == 0 ? start / axis.stride : -1;
  }
  CROSSBOW_GPU int64_t counted(const WindowAxis& axis, int64_t position, int64_t size) const {
    int64_t count = 0;
    for (int64_t k = 0; k < axis.kernel; ++k) {
      const int64_t at = axis.start(position) + k * axis.dilation;
      count += count_include_pad ? at < size + axis.after : at >= 0 && at < size;
    }
    return count;
  }
};

template <typename T>
struct MaxPool {
  Windows windows;
  const T* x;
  T* y;
  int32_t* positions;  // in the plane of x

  CROSSBOW_GPU void operator()(int64_t i) const {
    const Map::Coordinates p = windows.y.coordinates(i);
    int64_t best = -1;
    float largest = 0;
    windows.for_window(p, [&](int64_t h, int64_t w) {
      const float value = x[windows.x.at(p.image, h, w, p.channel)];
      if (best >= 0 && !(value > largest)) return;
      best = h * windows.x.width + w;
      largest = value;
    });
    y[i] = largest;
    positions[i] = static_cast<int32_t>(best);
  }
};

template <typename T>
struct MaxPoolGrad {
  Windows windows;
  const T* dy;
  const int32_t* positions;
  T* dx;

  CROSSBOW_GPU void operator()(int64_t i) const {
    const Map::Coordinates p = windows.x.coordinates(i);
    const int64_t mine = p.row * windows.x.width + p.column;
    float sum = 0;
    windows.for_covering(p, [&](int64_t oh, int64_t ow) {
      const int64_t at = windows.y.at(p.image, oh, ow, p.channel);
      if (positions[at] == mine) sum += dy[at];
    });
    dx[i] = sum;
  }
};

template <typename T>
struct AveragePool {
  Windows windows;
  const T* x;
  T* y;

  CROSSBOW_GPU void operator()(int64_t i) const {
    const Map::Coordinates p = windows.y.coordinates(i);
    float sum = 0;
    windows.for_window(
        p, [&](int64_t h, int64_t w) { sum += x[windows.x.at(p.image, h, w, p.channel)]; });
    y[i] = sum / windows.divisor(p.row, p.column);
  }
};

template <typename T>
struct AveragePoolGrad {
  Windows windows;
  const T* dy;
  T* dx;

  CROSSBOW_GPU void operator()(int64_t i) const {
    const Map::Coordinates p = windows.x.coordinates(i);
    float sum = 0;
    windows.for_covering(p, [&](int64_t oh, int64_t ow) {
      sum += dy[windows.y.at(p.image, oh, ow, p.channel)] / windows.divisor(oh, ow);
    });
    dx[i] = sum;
  }
};

/// What a pooling reads and writes, x the larger.
struct Pooling {
  Layout x, y;
  Windows windows;

  Pooling(const Layout& x, const Layout& y, const PoolAttributes& attributes)
      : x(x), y(y), windows(attributes, x.shape, y.shape) {}
};

Pooling forward(const PrepareContext& context) {
  return {input_layout(context, 0),
          activation_layout(context.node.outputs[0].shape, context.precision),
          context.node.attrs<PoolAttributes>()};
}

Pooling backward(const PrepareContext& context) {
  return {activation_layout(context.node.outputs[0].shape, context.precision),
          input_layout(context, 0), context.node.attrs<PoolGradAttributes>()};
}

PreparedKernel prepare_max(const PrepareContext& context) {
  const Pooling p = forward(context);
  return elementwise({p.x}, {p.y, p.y.with_dtype(DType::i32)}, p.y, [=](auto t, const Operands& o) {
    using T = decltype(t);
    return MaxPool<T>{p.windows, as<T>(o.inputs[0]), as<T>(o.outputs[0]),
                      as<int32_t>(o.outputs[1])};
  });
}

PreparedKernel prepare_max_grad(const PrepareContext& context) {
  const Pooling p = backward(context);
  return elementwise({p.y, p.y.with_dtype(DType::i32)}, {p.x}, p.x, [=](auto t, const Operands& o) {
    using T = decltype(t);
    return MaxPoolGrad<T>{p.windows, as<T>(o.inputs[0]), as<int32_t>(o.inputs[1]),
                          as<T>(o.outputs[0])};
  });
}

PreparedKernel prepare_average(const PrepareContext& context) {
  const Pooling p = forward(context);
  return elementwise({p.x}, {p.y}, p.y, [=](auto t, const Operands& o) {
    using T = decltype(t);
    return AveragePool<T>{p.windows, as<T>(o.inputs[0]), as<T>(o.outputs[0])};
  });
}

PreparedKernel prepare_average_grad(const PrepareContext& context) {
  const Pooling p = backward(context);
  return elementwise({p.y}, {p.x}, p.x, [=](auto t, const Operands& o) {
    using T = decltype(t);
    return AveragePoolGrad<T>{p.windows, as<T>(o.inputs[0]), as<T>(o.outputs[0])};
  });
}

const RegisterKernel kMax{kDevice, "max_pool", prepare_max};
const RegisterKernel kMaxGrad{kDevice, "max_pool_grad", prepare_max_grad};
const RegisterKernel kAverage{kDevice, "avg_pool", prepare_average};
const RegisterKernel kAverageGrad{kDevice, "avg_pool_grad", prepare_average_grad};

}  // namespace
}  // namespace crossbow::CROSSBOW_GRID
