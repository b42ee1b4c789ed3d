#include "ops/conv2d.h"

#include <dnnl.hpp>
#include <utility>

#include "core/error.h"
#include "kernels/cpu/grouped_weights.h"
#include "kernels/measure.h"

namespace crossbow {
namespace {

using onednn::Desc;
using Dims = dnnl::memory::dims;

/// One convolution as oneDNN wants it described; the same for its gradients.
struct Geometry {
  Shape x, weights, y;
  int64_t groups;
  onednn::Window window;
  DType dtype;
  std::string key;  // identifies it among the tuner's choices

  Geometry(const PrepareContext& c, const Conv2dAttributes& a, const Shape& x, const Shape& weights,
           const Shape& y)
      : x(x),
        weights(weights),
        y(y),
        groups(a.groups),
        window(onednn::window_over(a.axes(weights), x, y)),
        dtype(c.precision),
        key(fmt::format("{} {} x{} w{} s{} p{} d{} g{} t{}", c.node.op->name, name_of(dtype),
                        x.str(), weights.str(), a.stride.str(), a.padding.str(), a.dilation.str(),
                        a.groups, c.threads)) {}

  /// oneDNN's Winograd takes unequal padding too, but its gradient of x is then wrong.
  bool winograd_fits() const {
    return onednn::has_winograd() && dtype == DType::f32 && groups == 1 && weights[2] == 3 &&
           weights[3] == 3 && window.strides == Dims{1, 1} && window.dilation == Dims{0, 0} &&
           window.padding_low == window.padding_high;
  }

  std::vector<dnnl::algorithm> algorithms() const {
    std::vector<dnnl::algorithm> all{dnnl::algorithm::convolution_direct};
    if (winograd_fits()) all.push_back(dnnl::algorithm::convolution_winograd);
    return all;
  }

  /// As asked for; and in f32, since some processors' bf16 products are slower (a Xeon's
  /// AVX512_BF16 measured half the speed of f32). Activations then stay f32 between layers.
  std::vector<Geometry> variants() const {
    std::vector<Geometry> all{*this};
    if (dtype == DType::bf16) all.emplace_back(*this).dtype = DType::f32;
    return all;
  }

  Shape library_weights() const { return groups == 1 ? weights : onednn::grouped(weights, groups); }
  Desc weights_any(DType t) const { return onednn::desc_any(library_weights(), t); }
  Desc weights_desc(const Layout& layout) const {
    return groups == 1 ? onednn::desc_of(layout) : onednn::with_groups(layout, groups);
  }
};

/// Weights between the replica's layout and the one that an implementation wants. Nearly always
/// they are the same. Where a Layout cannot say how the library blocks grouped weights, they lie
/// row-major in the replica, and are converted within the kernel.
struct WeightsDoor {
  Desc inner;  // what the implementation reads or writes
  Desc plain;  // empty if it is the replica's layout
  Layout outer;

  WeightsDoor(const Geometry& g, const Desc& inner) : inner(inner) {
    if (g.groups == 1) {
      outer = onednn::layout_of(inner);
    } else if (const auto layout = onednn::without_groups(inner)) {
      outer = *layout;
    } else {
      const DType dtype = onednn::layout_of(inner).dtype;
      outer = Layout::plain(g.weights, dtype);
      plain = onednn::desc_of(Layout::plain(g.library_weights(), dtype));
    }
  }
  bool converts() const { return static_cast<bool>(plain); }
  size_t scratch_bytes() const { return (inner.get_size() + 63) / 64 * 64; }
};

Call in_turn(Call first, Call second) {
  return [first = std::move(first), second = std::move(second)](const Step& step) {
    first(step);
    second(step);
  };
}

Call convert(const Desc& from, void* from_data, const Desc& to, void* to_data) {
  const auto desc = onednn::reorder(from, to);
  if (desc.scratchpad_desc().get_size() > 0)
    fail("oneDNN converts grouped weights with scratch only");
  return onednn::bind<dnnl::reorder>(
      desc, {{DNNL_ARG_FROM, from, from_data}, {DNNL_ARG_TO, to, to_data}});
}

/// `kernel`, whose weights, an input or an output, are as its implementation has them, with those
/// of the replica.
PreparedKernel through(const WeightsDoor& door, PreparedKernel kernel, onednn::Wire weights) {
  if (!door.converts()) return kernel;
  kernel.scratch_bytes += door.scratch_bytes();
  kernel.bind = [door, weights, inner = std::move(kernel.bind)](Operands o) {
    void*& operand = (weights.is_output ? o.outputs : o.inputs)[weights.index];
    void* const converted = o.scratch;
    void* const outer = std::exchange(operand, converted);
    o.scratch = static_cast<std::byte*>(o.scratch) + door.scratch_bytes();
    Call run = inner(o);
    if (weights.is_output) return in_turn(run, convert(door.inner, converted, door.plain, outer));
    return in_turn(convert(door.plain, outer, door.inner, converted), run);
  };
  return kernel;
}

bool is_fallback(const std::string& implementation) {
  return implementation.find("ref") != std::string::npos || implementation.starts_with("gemm:") ||
         implementation.starts_with("x64:gemm:");
}

/// What `make` makes of `asked`, if the library has more for that than a fallback, else of `any`.
template <typename Make>
auto if_implemented(const Desc& asked, const Desc& any, Make make) {
  if (!asked) return make(any);
  try {
    auto as_asked = make(asked);
    if (!is_fallback(onednn::implementation(as_asked))) return as_asked;
  } catch (const dnnl::error&) {
    // No implementation for that layout.
  }
  return make(any);
}

/// `prepare(first)` with the first input as the library would have it; and as it is offered, if
/// that gets another implementation than that. (oneDNN's kernels for AMX take channels last only.)
template <typename Prepare>
void add_by_layout(std::vector<PreparedKernel>& candidates, const PrepareContext& c, DType dtype,
                   Prepare prepare) {
  const auto attempt = [&](auto first) -> std::optional<PreparedKernel> {
    try {
      return prepare(first());
    } catch (const dnnl::error& e) {
      if (e.status == dnnl_out_of_memory) fail("there is no memory left for oneDNN's kernels");
      return {};  // not implemented on this processor, or for that layout
    }
  };
  std::optional<PreparedKernel> free =
      attempt([&] { return onednn::desc_any(c.input_type(0).shape, dtype); });
  if (!free) return;
  std::optional<PreparedKernel> offered;
  if (c.offered[0]) {
    offered = attempt([&] { return onednn::desc_of(c.offered[0]->with_dtype(dtype)); });
  }
  const bool same = offered && offered->implementation == free->implementation;
  if (!same) candidates.push_back(*std::move(free));
  if (same || (offered && !is_fallback(offered->implementation))) {
    candidates.push_back(*std::move(offered));
  }
}

/// The best of all that the library has for this layer, by `prepare(variant, algorithm, first)`.
template <typename Prepare>
PreparedKernel best(const PrepareContext& c, const Geometry& g, Prepare prepare) {
  std::vector<PreparedKernel> candidates;
  for (const Geometry& variant : g.variants()) {
    const size_t begin = candidates.size();
    for (dnnl::algorithm algorithm : variant.algorithms()) {
      add_by_layout(candidates, c, variant.dtype,
                    [&](const Desc& first) { return prepare(variant, algorithm, first); });
    }
    if (variant.dtype == g.dtype) continue;
    for (size_t i = begin; i < candidates.size(); ++i) candidates[i].implementation += " in f32";
  }
  return choose(c, g.key, std::move(candidates));
}

PreparedKernel prepare_conv2d(const PrepareContext& c) {
  const Geometry geometry(c, c.node.attrs<Conv2dAttributes>(), c.input_type(0).shape,
                          c.input_type(1).shape, c.node.outputs[0].shape);
  const bool with_bias = c.node.has_input(2);
  const Layout bias = with_bias ? Layout::plain(c.input_type(2).shape, DType::f32) : Layout{};
  const Desc bias_desc = with_bias ? onednn::desc_of(bias) : Desc();
  return best(c, geometry, [&](const Geometry& g, dnnl::algorithm algorithm, const Desc& src) {
    const auto desc = onednn::conv_forward(algorithm, src, g.weights_any(g.dtype), bias_desc,
                                           onednn::desc_any(g.y, g.dtype), g.window);
    const WeightsDoor door(g, desc.weights_desc());
    const auto weights = onednn::input(1, DNNL_ARG_WEIGHTS, desc.weights_desc());
    std::vector wires{onednn::input(0, DNNL_ARG_SRC, desc.src_desc()), weights,
                      onednn::output(0, DNNL_ARG_DST, desc.dst_desc())};
    if (with_bias) wires.push_back(onednn::input(2, DNNL_ARG_BIAS, bias_desc));
    return through(door,
                   onednn::run_by<dnnl::convolution_forward>(
                       desc, wires,
                       {{onednn::layout_of(desc.src_desc()), door.outer, bias},
                        {onednn::layout_of(desc.dst_desc())}}),
                   weights);
  });
}

PreparedKernel prepare_grad_input(const PrepareContext& c) {
  const auto& a = c.node.attrs<Conv2dGradAttributes>();
  const Geometry geometry(c, a, a.shape, c.input_type(1).shape, c.input_type(0).shape);
  return best(c, geometry, [&](const Geometry& g, dnnl::algorithm algorithm, const Desc& diff_dst) {
    const auto desc = onednn::conv_backward_data(algorithm, onednn::desc_any(g.x, g.dtype),
                                                 g.weights_any(g.dtype), diff_dst, g.window);
    const WeightsDoor door(g, desc.weights_desc());
    const auto weights = onednn::input(1, DNNL_ARG_WEIGHTS, desc.weights_desc());
    return through(door,
                   onednn::run_by<dnnl::convolution_backward_data>(
                       desc,
                       {onednn::input(0, DNNL_ARG_DIFF_DST, desc.diff_dst_desc()), weights,
                        onednn::output(0, DNNL_ARG_DIFF_SRC, desc.diff_src_desc())},
                       {{onednn::layout_of(desc.diff_dst_desc()), door.outer},
                        {onednn::layout_of(desc.diff_src_desc())}}),
                   weights);
  });
}

PreparedKernel prepare_grad_weights(const PrepareContext& c) {
  const auto& a = c.node.attrs<Conv2dGradAttributes>();
  Geometry geometry(c, a, c.input_type(0).shape, a.shape, c.input_type(1).shape);
  // oneDNN 2.6's bf16 kernel reads beyond the rows of images that are narrower than the stride.
  if (geometry.x[3] < a.stride.width) geometry.dtype = DType::f32;
  const Layout bias = a.with_bias ? Layout::plain(c.node.outputs[1].shape, DType::f32) : Layout{};
  const Desc bias_desc = a.with_bias ? onednn::desc_of(bias) : Desc();
  const Desc required = c.required[0] ? geometry.weights_desc(*c.required[0]) : Desc();
  return best(c, geometry, [&](const Geometry& g, dnnl::algorithm algorithm, const Desc& src) {
    const auto desc = if_implemented(required, g.weights_any(DType::f32), [&](const Desc& weights) {
      return onednn::conv_backward_weights(algorithm, src, weights, bias_desc,
                                           onednn::desc_any(g.y, g.dtype), g.window);
    });
    const WeightsDoor door(g, desc.diff_weights_desc());
    PreparedKernel kernel{
        {onednn::layout_of(desc.src_desc()), onednn::layout_of(desc.diff_dst_desc())},
        {door.outer}};
    const auto weights = onednn::output(0, DNNL_ARG_DIFF_WEIGHTS, desc.diff_weights_desc());
    std::vector wires{onednn::input(0, DNNL_ARG_SRC, desc.src_desc()),
                      onednn::input(1, DNNL_ARG_DIFF_DST, desc.diff_dst_desc()), weights};
    if (a.with_bias) {
      kernel.outputs.push_back(bias);
      wires.push_back(onednn::output(1, DNNL_ARG_DIFF_BIAS, bias_desc));
    }
    kernel = onednn::run_by<dnnl::convolution_backward_weights>(desc, wires, std::move(kernel));
    return through(door, std::move(kernel), weights);
  });
}

const RegisterKernel kConv2d{"cpu", "conv2d", prepare_conv2d};
const RegisterKernel kGradInput{"cpu", "conv2d_grad_input", prepare_grad_input};
const RegisterKernel kGradWeights{"cpu", "conv2d_grad_weights", prepare_grad_weights};

}  // namespace
}  // namespace crossbow
