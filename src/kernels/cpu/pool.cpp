#include "ops/pool.h"

#include <algorithm>
#include <dnnl.hpp>

#include "core/error.h"
#include "kernels/cpu/onednn.h"
#include "kernels/cpu/prepare.h"

namespace crossbow {
namespace {

using onednn::Window;

/// The window, with right padding that makes oneDNN's floor rule give `y` under either rule.
struct Geometry {
  Window window;
  dnnl::memory::dims kernel;

  Geometry(const PoolAttributes& a, const Shape& x, const Shape& y)
      : kernel{a.kernel_h, a.kernel_w} {
    const auto right = [&](int d, int64_t k) {
      return (y[d] - 1) * a.stride + k - x[d] - a.padding;
    };
    window = {{a.stride, a.stride},
              {0, 0},
              {a.padding, a.padding},
              {right(2, a.kernel_h), right(3, a.kernel_w)}};
  }
};

/// The offered layout of x or dy, at the precision that the kernel computes in.
Layout activation(const PrepareContext& c) {
  return channelwise_layout(c, 0).with_dtype(c.precision);
}

PreparedKernel prepare_max_pool(const PrepareContext& c) {
  const Geometry g(c.node.attrs<PoolAttributes>(), c.input_type(0).shape, c.node.outputs[0].shape);
  const Layout x = activation(c);
  // Left to itself the library takes y's order of dimensions from x's strides, and those of
  // dimensions of size 1 are arbitrary.
  const Layout y = arranged_like(x, c.node.outputs[0].shape, c.precision);
  const auto desc = onednn::pool_forward(dnnl::algorithm::pooling_max, onednn::desc_of(x),
                                         onednn::desc_of(y), g.window, g.kernel);
  return onednn::run_by<dnnl::pooling_forward>(
      desc,
      {onednn::input(0, DNNL_ARG_SRC, desc.src_desc()),
       onednn::output(0, DNNL_ARG_DST, desc.dst_desc()),
       onednn::output(1, DNNL_ARG_WORKSPACE, desc.workspace_desc())},
      {{x}, {y, onednn::layout_of(desc.workspace_desc())}});
}

PreparedKernel prepare_max_pool_grad(const PrepareContext& c) {
  const auto& a = c.node.attrs<PoolGradAttributes>();
  const Geometry g(a, a.shape, c.input_type(0).shape);
  // The workspace fixes the layout that the forward pass wrote, so dy has to lie the same way.
  const Layout& workspace = *c.offered[1];
  const Layout dy = workspace.with_dtype(c.precision);
  const Layout dx = arranged_like(workspace, a.shape, c.precision);
  const auto desc = onednn::pool_backward(dnnl::algorithm::pooling_max, onednn::desc_of(dx),
                                          onednn::desc_of(dy), g.window, g.kernel);
  return onednn::run_by<dnnl::pooling_backward>(
      desc,
      {onednn::input(0, DNNL_ARG_DIFF_DST, desc.diff_dst_desc()),
       onednn::input(1, DNNL_ARG_WORKSPACE, desc.workspace_desc()),
       onednn::output(0, DNNL_ARG_DIFF_SRC, desc.diff_src_desc())},
      {{dy, workspace}, {onednn::layout_of(desc.diff_src_desc())}});
}

/// Average pooling is a sparse matrix over positions, and its gradient the transposed one: every
/// target position is a weighted sum of source positions. (oneDNN's divides by the whole window
/// wherever padding counts, even for the part of a window that lies beyond the padding.)
struct Taps {
  struct Tap {
    int64_t source;
    float factor;
  };
  struct Target {
    std::vector<Tap> taps;
    float divisor = 0;  // 1/factor, if all taps have the same; else 0
  };
  std::vector<Target> targets;
  int64_t sources;
};

Taps taps_of(const PoolAttributes& a, const Shape& x, const Shape& y, bool gradient) {
  const int64_t h = x[2], w = x[3];
  Taps taps;
  taps.targets.resize(gradient ? h * w : y[2] * y[3]);
  taps.sources = gradient ? y[2] * y[3] : h * w;
  for (int64_t oy = 0; oy < y[2]; ++oy) {
    for (int64_t ox = 0; ox < y[3]; ++ox) {
      const int64_t top = oy * a.stride - a.padding, left = ox * a.stride - a.padding;
      const int64_t bottom = std::min(top + a.kernel_h, h + a.padding);
      const int64_t right = std::min(left + a.kernel_w, w + a.padding);
      const int64_t y0 = std::max<int64_t>(top, 0), y1 = std::min(bottom, h);
      const int64_t x0 = std::max<int64_t>(left, 0), x1 = std::min(right, w);
      const int64_t count =
          a.count_include_pad ? (bottom - top) * (right - left) : (y1 - y0) * (x1 - x0);
      const auto divisor = static_cast<float>(count);
      for (int64_t iy = y0; iy < y1; ++iy) {
        for (int64_t ix = x0; ix < x1; ++ix) {
          const int64_t out = oy * y[3] + ox, in = iy * w + ix;
          Taps::Target& target = taps.targets[gradient ? in : out];
          target.divisor = target.taps.empty() || target.divisor == divisor ? divisor : 0;
          target.taps.push_back({gradient ? out : in, 1 / divisor});
        }
      }
    }
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

template <typename T>
void weighted_sums(const Taps& taps, const T* source, T* target, int64_t image, int64_t stride) {
  source += image * taps.sources * stride;
  target += image * static_cast<int64_t>(taps.targets.size()) * stride;
  for (const Taps::Target& of : taps.targets) {
    const bool large = of.divisor > 0 && of.taps.size() > kFewTaps;
    const auto sum = [&](int64_t c, auto lanes) {
      if (large) {
        mean(of, source + c, target + c, stride, lanes);
      } else {
        weighted_sum(of, source + c, target + c, stride, lanes);
      }
    };
    int64_t c = 0;
    for (; c + kLanes <= stride; c += kLanes) sum(c, std::integral_constant<int64_t, kLanes>());
    if (c < stride) sum(c, stride - c);
    target += stride;
  }
}

template <typename T>
Call bind_weighted_sums(const Taps& taps, const ChannelView& view, int threads, Operands o) {
  return [taps, view, threads, from = static_cast<const T*>(o.inputs[0]),
          to = static_cast<T*>(o.outputs[0])](const Step&) {
    parallel_for(threads, view.batch * view.blocks,
                 [&](int64_t image) { weighted_sums(taps, from, to, image, view.block); });
  };
}

/// The result keeps the layout of its source: the offered one, or blocks of channels where that is
/// row-major, as behind a dense layer's gradient.
PreparedKernel prepare_average(const PrepareContext& c, const PoolAttributes& a, bool gradient) {
  Layout from = activation(c);
  if (from.is_plain() && from.shape[1] % kLanes == 0) {
    from = Layout::channel_blocked(from.shape, from.dtype, kLanes);
  }
  const Shape& result = c.node.outputs[0].shape;
  const Layout to = arranged_like(from, result, c.precision);
  // Of the larger one: where there is a single position, channels seem to lie side by side.
  const bool grows = from.shape.elements() < result.elements();
  const ChannelView view = channel_view(grows ? to : from);
  const Taps taps =
      gradient ? taps_of(a, result, from.shape, true) : taps_of(a, from.shape, result, false);
  PreparedKernel kernel{{from}, {to}};
  kernel.implementation = "loops:average";
  kernel.bind = [taps, view, threads = c.threads, precision = c.precision](Operands o) {
    return precision == DType::bf16 ? bind_weighted_sums<bf16>(taps, view, threads, std::move(o))
                                    : bind_weighted_sums<float>(taps, view, threads, std::move(o));
  };
  return kernel;
}

PreparedKernel prepare_avg_pool(const PrepareContext& c) {
  return prepare_average(c, c.node.attrs<PoolAttributes>(), false);
}

PreparedKernel prepare_avg_pool_grad(const PrepareContext& c) {
  return prepare_average(c, c.node.attrs<PoolGradAttributes>(), true);
}

const RegisterKernel kMax{"cpu", "max_pool", prepare_max_pool};
const RegisterKernel kMaxGrad{"cpu", "max_pool_grad", prepare_max_pool_grad};
const RegisterKernel kAverage{"cpu", "avg_pool", prepare_avg_pool};
const RegisterKernel kAverageGrad{"cpu", "avg_pool_grad", prepare_avg_pool_grad};

}  // namespace
}  // namespace crossbow
