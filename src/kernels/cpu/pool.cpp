#include "ops/pool.h"

#include <algorithm>
#include <dnnl.hpp>

#include "core/error.h"
#include "kernels/cpu/onednn.h"
#include "kernels/cpu/team.h"

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

/// The offered activation layout, at the precision that the kernel computes in.
Layout activation(const PrepareContext& c, size_t input) {
  return c.offered_or_plain(input).with_dtype(c.precision);
}

PreparedKernel prepare_max_pool(const PrepareContext& c) {
  const Geometry g(c.node.attrs<PoolAttributes>(), c.input_type(0).shape, c.node.outputs[0].shape);
  const Layout x = activation(c, 0);
  const auto desc = onednn::pool_forward(dnnl::algorithm::pooling_max, onednn::desc_of(x),
                                         onednn::desc_any(c.node.outputs[0].shape, c.precision),
                                         g.window, g.kernel);
  return onednn::run_by<dnnl::pooling_forward>(
      desc,
      {onednn::input(0, DNNL_ARG_SRC, desc.src_desc()),
       onednn::output(0, DNNL_ARG_DST, desc.dst_desc()),
       onednn::output(1, DNNL_ARG_WORKSPACE, desc.workspace_desc())},
      {{x}, {onednn::layout_of(desc.dst_desc()), onednn::layout_of(desc.workspace_desc())}});
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
  std::vector<std::vector<Tap>> of_target;
  int64_t sources;
};

Taps taps_of(const PoolAttributes& a, const Shape& x, const Shape& y, bool gradient) {
  const int64_t h = x[2], w = x[3];
  Taps taps;
  taps.of_target.resize(gradient ? h * w : y[2] * y[3]);
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
      const float factor = 1.0f / static_cast<float>(count);
      for (int64_t iy = y0; iy < y1; ++iy) {
        for (int64_t ix = x0; ix < x1; ++ix) {
          const int64_t out = oy * y[3] + ox, in = iy * w + ix;
          taps.of_target[gradient ? in : out].push_back({gradient ? out : in, factor});
        }
      }
    }
  }
  return taps;
}

constexpr int64_t kLanes = 16;

/// One target's sums over `lanes` neighbouring channels, in f32 whatever the element type. A
/// constant `lanes` makes vector code of it.
template <typename T>
inline void weighted_sum(const std::vector<Taps::Tap>& taps, const T* source, T* target,
                         int64_t stride, int64_t lanes) {
  float sums[kLanes] = {};
  for (const Taps::Tap& tap : taps) {
    const T* from = source + tap.source * stride;
    for (int64_t c = 0; c < lanes; ++c) sums[c] += tap.factor * from[c];
  }
  for (int64_t c = 0; c < lanes; ++c) target[c] = sums[c];
}

template <typename T>
void weighted_sums(const Taps& taps, const T* source, T* target, int64_t image, int64_t stride) {
  const auto targets = static_cast<int64_t>(taps.of_target.size());
  source += image * taps.sources * stride;
  target += image * targets * stride;
  for (int64_t t = 0; t < targets; ++t) {
    int64_t c = 0;
    for (; c + kLanes <= stride; c += kLanes) {
      weighted_sum(taps.of_target[t], source + c, target + t * stride + c, stride, kLanes);
    }
    if (c < stride) {
      weighted_sum(taps.of_target[t], source + c, target + t * stride + c, stride, stride - c);
    }
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
  Layout from = activation(c, 0);
  if (from.is_plain() && from.shape[1] % kLanes == 0) {
    from = Layout::channel_blocked(from.shape, from.dtype, kLanes);
  }
  const Shape& result = c.node.outputs[0].shape;
  const Layout to = arranged_like(from, result, c.precision);
  // Seen from x: y may have a single position, where channels seem to lie side by side.
  const ChannelView view = channel_view(gradient ? to : from);
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
