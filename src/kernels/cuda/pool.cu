#include "ops/pool.h"

#include <algorithm>
#include <limits>

#include "core/error.h"
#include "kernels/cuda/prepare.h"

namespace crossbow::CROSSBOW_GRID {
namespace {

/// Where an element of an activation [batch, channels, height, width] lies, and back. Numbers of 32
/// bits, as a GPU divides others by a long function.
struct Map {
  int channels, height, width;

  explicit Map(const Shape& shape)
      : channels(static_cast<int>(shape[1])),
        height(static_cast<int>(shape[2])),
        width(static_cast<int>(shape[3])) {}

  struct Coordinates {
    int image, row, column, channel;
  };
  CROSSBOW_GPU Coordinates coordinates(int64_t index) const {
    const int i = static_cast<int>(index);
    const int pixel = i / channels, line = pixel / width, image = line / height;
    return {image, line - image * height, pixel - line * width, i - pixel * channels};
  }
  CROSSBOW_GPU int64_t at(int image, int row, int column, int channel) const {
    return ((image * height + row) * width + column) * channels + channel;
  }
};

/// WindowAxis, likewise.
struct Axis {
  int kernel, stride, dilation, before, after;

  Axis(const WindowAxis& a)  // NOLINT: the same
      : kernel(static_cast<int>(a.kernel)),
        stride(static_cast<int>(a.stride)),
        dilation(static_cast<int>(a.dilation)),
        before(static_cast<int>(a.before)),
        after(static_cast<int>(a.after)) {}

  constexpr int span() const { return dilation * (kernel - 1) + 1; }
  constexpr int start(int position) const { return position * stride - before; }
};

/// How windows slide over a map x, each making an element of y.
struct Windows {
  Axis rows, columns;
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
    CROSSBOW_ROLLED
    for (int i = 0, h = rows.start(p.row); i < rows.kernel; ++i, h += rows.dilation) {
      if (h < 0 || h >= x.height) continue;
      CROSSBOW_ROLLED
      for (int j = 0, w = columns.start(p.column); j < columns.kernel; ++j, w += columns.dilation) {
        if (w >= 0 && w < x.width) f(h, w);
      }
    }
  }

  /// f(row, column) of y, for the windows that cover x's element, in row-major order.
  template <typename F>
  CROSSBOW_GPU void for_covering(const Map::Coordinates& p, const F& f) const {
    for_positions(rows, p.row, y.height, [&](int row) {
      for_positions(columns, p.column, y.width, [&](int column) { f(row, column); });
    });
  }

  /// Of an average.
  CROSSBOW_GPU float divisor(int row, int column) const {
    if (inside) return static_cast<float>(rows.kernel * columns.kernel);
    return static_cast<float>(counted(rows, row, x.height) * counted(columns, column, x.width));
  }

 private:
  static bool is_inside(const Axis& axis, int size, int positions) {
    return axis.before == 0 && axis.start(positions - 1) + axis.span() <= size;
  }
  /// f(position) of the windows along the axis, of which there are `count`, that have this pixel.
  template <typename F>
  CROSSBOW_GPU static void for_positions(const Axis& axis, int pixel, int count, const F& f) {
    const int last = pixel + axis.before, before_first = last - axis.span();
    const int end = static_cast<int>(smaller(last / axis.stride + 1, count));
    CROSSBOW_ROLLED
    for (int p = before_first < 0 ? 0 : before_first / axis.stride + 1; p < end; ++p) {
      if (axis.dilation == 1 || (last - p * axis.stride) % axis.dilation == 0) f(p);
    }
  }
  CROSSBOW_GPU int counted(const Axis& axis, int position, int size) const {
    int count = 0;
    CROSSBOW_ROLLED
    for (int k = 0; k < axis.kernel; ++k) {
      const int at = axis.start(position) + k * axis.dilation;
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
    int best = -1;
    float largest = 0;
    windows.for_window(p, [&](int h, int w) {
      const float value = x[windows.x.at(p.image, h, w, p.channel)];
      if (best >= 0 && !(value > largest)) return;
      best = h * windows.x.width + w;
      largest = value;
    });
    y[i] = largest;
    positions[i] = best;
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
    const int mine = p.row * windows.x.width + p.column;
    float sum = 0;
    windows.for_covering(p, [&](int oh, int ow) {
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
    windows.for_window(p, [&](int h, int w) { sum += x[windows.x.at(p.image, h, w, p.channel)]; });
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
    windows.for_covering(p, [&](int oh, int ow) {
      sum += dy[windows.y.at(p.image, oh, ow, p.channel)] / windows.divisor(oh, ow);
    });
    dx[i] = sum;
  }
};

/// What a pooling reads and writes: x has the windows, y a value for each.
struct Pooling {
  Layout x, y;
  Windows windows;

  Pooling(const Layout& x, const Layout& y, const PoolAttributes& attributes, const Node& node)
      : x(x), y(y), windows(attributes, x.shape, y.shape) {
    const int64_t elements = std::max(x.elements(), y.elements());  // padding makes y the larger
    if (elements <= std::numeric_limits<int>::max()) return;
    fail("layer {}: a GPU pools at most 2^31 − 1 values, and these are {}; use a smaller batch",
         node.name, elements);
  }
};

Pooling forward(const PrepareContext& context) {
  return {input_layout(context, 0),
          activation_layout(context.node.outputs[0].shape, context.precision),
          context.node.attrs<PoolAttributes>(), context.node};
}

Pooling backward(const PrepareContext& context) {
  return {activation_layout(context.node.outputs[0].shape, context.precision),
          input_layout(context, 0), context.node.attrs<PoolGradAttributes>(), context.node};
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
