#include "kernels/cpu/pool_loops.h"

#include <algorithm>
#include <vector>

#include "kernels/cpu/prepare.h"
#include "ops/adaptive_pool.h"

namespace crossbow {
namespace {

/// Pooling is a sparse matrix over positions, and its gradient the transposed one: every target
/// position takes something of each of its source positions.
struct Taps {
  struct Tap {
    int64_t source;
    float factor;  // in an average
    bool operator==(const Tap&) const = default;
  };
  struct Target {
    std::vector<Tap> taps;
    float divisor = 0;     // 1/factor, if all taps have the same; else 0
    bool repeats = false;  // the taps of the target before, as the gradient of a map's mean
  };
  std::vector<Target> targets;
  int64_t sources;
};

/// The pixels that a window reads along one axis, and how many positions its average counts.
struct AxisTaps {
  std::vector<int64_t> pixels;
  int64_t counted = 0;
};

std::vector<AxisTaps> axis_taps(const WindowAxis& axis, int64_t size, int64_t windows,
                                bool count_include_pad) {
  std::vector<AxisTaps> all(windows);
  for (int64_t i = 0; i < windows; ++i) {
    const int64_t start = axis.start(i);
    for (int64_t at = start; at < start + axis.span(); at += axis.dilation) {
      const bool inside = at >= 0 && at < size;
      if (inside) all[i].pixels.push_back(at);
      all[i].counted += inside || (count_include_pad && at < size + axis.after);
    }
  }
  return all;
}

std::vector<AxisTaps> axis_taps(const PartAxis& axis) {
  std::vector<AxisTaps> all(axis.parts);
  for (int64_t i = 0; i < axis.parts; ++i) {
    for (int64_t at = axis.begin(i); at < axis.end(i); ++at) all[i].pixels.push_back(at);
    all[i].counted = std::ssize(all[i].pixels);
  }
  return all;
}

/// Of each row and column of windows over maps of h×w.
struct MapTaps {
  std::vector<AxisTaps> rows, columns;
};

MapTaps map_taps(const PoolAttributes& a, const Shape& x, const Shape& y) {
  const WindowAxes axes = a.axes();
  return {axis_taps(axes[0], x[2], y[2], a.count_include_pad),
          axis_taps(axes[1], x[3], y[3], a.count_include_pad)};
}

Taps taps_of(const MapTaps& map, const Shape& x, const Shape& y, bool gradient) {
  const int64_t h = x[2], w = x[3];
  Taps taps;
  taps.targets.resize(gradient ? h * w : y[2] * y[3]);
  taps.sources = gradient ? y[2] * y[3] : h * w;
  for (int64_t out = 0; out < y[2] * y[3]; ++out) {
    const AxisTaps &row = map.rows[out / y[3]], &column = map.columns[out % y[3]];
    const auto divisor = static_cast<float>(row.counted * column.counted);
    for (const int64_t iy : row.pixels) {
      for (const int64_t ix : column.pixels) {
        const int64_t in = iy * w + ix;
        Taps::Target& target = taps.targets[gradient ? in : out];
        target.divisor = target.taps.empty() || target.divisor == divisor ? divisor : 0;
        target.taps.push_back({gradient ? out : in, 1 / divisor});
      }
    }
  }
  for (size_t t = 1; t < taps.targets.size(); ++t) {
    taps.targets[t].repeats = taps.targets[t].taps == taps.targets[t - 1].taps;
  }
  return taps;
}

constexpr int64_t kLanes = 16;

constexpr size_t kFewTaps = 16;

/// One target's sums over `lanes` neighbouring channels, in f32 whatever the element type. A
/// constant `lanes` makes vector code of it.
template <typename T, typename Lanes>
inline void weighted_sum(const Taps::Target& of, const T* source, T* target, int64_t stride,
                         Lanes lanes) {
  float sums[kLanes] = {};
  for (const Taps::Tap& tap : of.taps) {
    const T* from = source + tap.source * stride;
    for (int64_t c = 0; c < lanes; ++c) sums[c] += tap.factor * from[c];
  }
  for (int64_t c = 0; c < lanes; ++c) target[c] = sums[c];
}

/// As weighted_sum, of many taps with one divisor. Each few taps have a sum of their own, lest the
/// rounding be that of as long a chain.
template <typename T, typename Lanes>
inline void mean(const Taps::Target& of, const T* source, T* target, int64_t stride, Lanes lanes) {
  float total[kLanes] = {};
  for (size_t begin = 0; begin < of.taps.size(); begin += kFewTaps) {
    const size_t end = std::min(of.taps.size(), begin + kFewTaps);
    float sums[kLanes] = {};
    for (size_t t = begin; t < end; ++t) {
      const T* from = source + of.taps[t].source * stride;
      for (int64_t c = 0; c < lanes; ++c) sums[c] += from[c];
    }
    for (int64_t c = 0; c < lanes; ++c) total[c] += sums[c];
  }
  for (int64_t c = 0; c < lanes; ++c) target[c] = total[c] / of.divisor;
}

/// The largest of the taps, the first where several are, and its source.
template <typename T, typename Lanes>
inline void largest(const Taps::Target& of, const T* source, T* target, int32_t* position,
                    int64_t stride, Lanes lanes) {
  float best[kLanes];
  int32_t at[kLanes];
  for (const Taps::Tap& tap : of.taps) {
    const T* from = source + tap.source * stride;
    const bool first = &tap == of.taps.data();
    for (int64_t c = 0; c < lanes; ++c) {
      const bool larger = first || from[c] > best[c];
      best[c] = larger ? static_cast<float>(from[c]) : best[c];
      at[c] = larger ? static_cast<int32_t>(tap.source) : at[c];
    }
  }
  for (int64_t c = 0; c < lanes; ++c) {
    target[c] = best[c];
    position[c] = at[c];
  }
}

/// The gradient of `largest` for the pixel `self`: of the windows that read it, those that took it.
template <typename T, typename Lanes>
inline void sum_where_taken(const Taps::Target& of, int32_t self, const T* source,
                            const int32_t* position, T* target, int64_t stride, Lanes lanes) {
  float sums[kLanes] = {};
  for (const Taps::Tap& tap : of.taps) {
    const int64_t offset = tap.source * stride;
    for (int64_t c = 0; c < lanes; ++c) {
      sums[c] += position[offset + c] == self ? static_cast<float>(source[offset + c]) : 0;
    }
  }
  for (int64_t c = 0; c < lanes; ++c) target[c] = sums[c];
}

/// Runs apply(target, channel, lanes) for every target position and each few of `stride` channels.
template <typename Apply>
void for_targets(const Taps& taps, int64_t stride, const Apply& apply) {
  for (size_t t = 0; t < taps.targets.size(); ++t) {
    int64_t c = 0;
    for (; c + kLanes <= stride; c += kLanes) {
      apply(t, c, std::integral_constant<int64_t, kLanes>());
    }
    if (c < stride) apply(t, c, stride - c);
  }
}

/// What all of these kernels are bound from.
struct Pooling {
  Taps taps;
  ChannelView view;
  int threads;

  /// Calls f(offset in the source, offset in the target) for every block of channels of an image.
  template <typename F>
  void for_images(const F& f) const {
    const int64_t targets = static_cast<int64_t>(taps.targets.size()) * view.block;
    parallel_for(threads, view.batch * view.blocks,
                 [&](int64_t image) { f(image * taps.sources * view.block, image * targets); });
  }
};

template <typename T>
Call bind_average(const Pooling& p, Operands o) {
  return [p, source = static_cast<const T*>(o.inputs[0]),
          result = static_cast<T*>(o.outputs[0])](const Step&) {
    p.for_images([&](int64_t from, int64_t to) {
      const int64_t stride = p.view.block;
      for_targets(p.taps, stride, [&](size_t t, int64_t c, auto lanes) {
        const Taps::Target& of = p.taps.targets[t];
        T* target = result + to + static_cast<int64_t>(t) * stride + c;
        if (of.repeats) {
          std::copy_n(target - stride, lanes, target);
        } else if (of.divisor > 0 && of.taps.size() > kFewTaps) {
          mean(of, source + from + c, target, stride, lanes);
        } else {
          weighted_sum(of, source + from + c, target, stride, lanes);
        }
      });
    });
  };
}

template <typename T>
Call bind_max(const Pooling& p, Operands o) {
  return [p, x = static_cast<const T*>(o.inputs[0]), y = static_cast<T*>(o.outputs[0]),
          positions = static_cast<int32_t*>(o.outputs[1])](const Step&) {
    p.for_images([&](int64_t from, int64_t to) {
      for_targets(p.taps, p.view.block, [&](size_t t, int64_t c, auto lanes) {
        const int64_t at = to + static_cast<int64_t>(t) * p.view.block + c;
        largest(p.taps.targets[t], x + from + c, y + at, positions + at, p.view.block, lanes);
      });
    });
  };
}

template <typename T>
Call bind_max_grad(const Pooling& p, Operands o) {
  return [p, dy = static_cast<const T*>(o.inputs[0]),
          positions = static_cast<const int32_t*>(o.inputs[1]),
          dx = static_cast<T*>(o.outputs[0])](const Step&) {
    p.for_images([&](int64_t from, int64_t to) {
      for_targets(p.taps, p.view.block, [&](size_t t, int64_t c, auto lanes) {
        const int64_t at = to + static_cast<int64_t>(t) * p.view.block + c;
        sum_where_taken(p.taps.targets[t], static_cast<int32_t>(t), dy + from + c,
                        positions + from + c, dx + at, p.view.block, lanes);
      });
    });
  };
}

/// The layout that a result keeps: the offered one at the precision that the kernel computes in, or
/// blocks of channels where that is row-major, as behind a dense layer's gradient.
Layout source_layout(const PrepareContext& c) {
  const Layout offered = channelwise_layout(c, 0).with_dtype(c.precision);
  if (!offered.is_plain() || offered.shape[1] % kLanes != 0) return offered;
  return Layout::channel_blocked(offered.shape, offered.dtype, kLanes);
}

Pooling pooling(const PrepareContext& c, const MapTaps& map, const Layout& from, const Layout& to,
                bool gradient) {
  // Of the larger one: where there is a single position, channels seem to lie side by side.
  const bool grows = from.shape.elements() < to.shape.elements();
  return {gradient ? taps_of(map, to.shape, from.shape, true)
                   : taps_of(map, from.shape, to.shape, false),
          channel_view(grows ? to : from), c.threads};
}

/// With a `bind` that takes T{} for the type of the elements.
template <typename Bind>
PreparedKernel prepared(const PrepareContext& c, const char* implementation,
                        std::vector<Layout> inputs, std::vector<Layout> outputs, Bind bind) {
  PreparedKernel kernel{std::move(inputs), std::move(outputs)};
  kernel.implementation = implementation;
  kernel.bind = [bind, precision = c.precision](Operands o) {
    return precision == DType::bf16 ? bind(bf16{}, std::move(o)) : bind(float{}, std::move(o));
  };
  return kernel;
}

PreparedKernel average(const PrepareContext& c, const MapTaps& map, bool gradient) {
  const Layout from = source_layout(c);
  const Layout to = arranged_like(from, c.node.outputs[0].shape, c.precision);
  return prepared(c, "loops:average", {from}, {to},
                  [p = pooling(c, map, from, to, gradient)](auto t, Operands o) {
                    return bind_average<decltype(t)>(p, std::move(o));
                  });
}

}  // namespace

PreparedKernel prepare_average(const PrepareContext& c, const PoolAttributes& a, bool gradient) {
  const Shape &from = c.input_type(0).shape, &to = c.node.outputs[0].shape;
  return average(c, gradient ? map_taps(a, to, from) : map_taps(a, from, to), gradient);
}

PreparedKernel prepare_average_of_parts(const PrepareContext& c, const Shape& x, bool gradient) {
  const Size2& parts = c.node.attrs<AdaptivePoolAttributes>().parts;
  return average(c,
                 {axis_taps(PartAxis{x[2], parts.height}), axis_taps(PartAxis{x[3], parts.width})},
                 gradient);
}

PreparedKernel prepare_max_by_loops(const PrepareContext& c) {
  const Layout x = source_layout(c);
  const Shape& shape = c.node.outputs[0].shape;
  const Layout y = arranged_like(x, shape, c.precision);
  return prepared(
      c, "loops:max", {x}, {y, y.with_dtype(DType::i32)},
      [p = pooling(c, map_taps(c.node.attrs<PoolAttributes>(), x.shape, y.shape), x, y, false)](
          auto t, Operands o) { return bind_max<decltype(t)>(p, std::move(o)); });
}

PreparedKernel prepare_max_grad_by_loops(const PrepareContext& c) {
  const auto& a = c.node.attrs<PoolGradAttributes>();
  const Layout& positions = *c.offered[1];  // where the forward pass wrote them
  const Layout dy = positions.with_dtype(c.precision);
  const Layout dx = arranged_like(positions, a.shape, c.precision);
  return prepared(c, "loops:max", {dy, positions}, {dx},
                  [p = pooling(c, map_taps(a, dx.shape, dy.shape), dy, dx, true)](
                      auto t, Operands o) { return bind_max_grad<decltype(t)>(p, std::move(o)); });
}

}  // namespace crossbow
