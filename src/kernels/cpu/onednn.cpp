#include "kernels/cpu/onednn.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <cstdlib>

#include "core/error.h"
#include "core/machine.h"

namespace crossbow::onednn {

using dnnl::memory;
using dnnl::prop_kind;

namespace {

/// Some virtual machines announce AMX but hide its tile palette, which oneDNN builds its kernels
/// from: they would end in an illegal instruction.
bool amx_is_broken() {
#if defined(__x86_64__)
  unsigned a, b, c, d;
  constexpr unsigned kAmxTile = 1u << 24;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d & kAmxTile)) return false;
  return !__get_cpuid_count(0x1D, 0, &a, &b, &c, &d) || a == 0;
#else
  return false;
#endif
}

}  // namespace

dnnl::engine engine() {
  static const dnnl::engine e = [] {
    const bool limited = std::getenv("ONEDNN_MAX_CPU_ISA") || std::getenv("DNNL_MAX_CPU_ISA");
    if (!limited && amx_is_broken()) dnnl::set_max_cpu_isa(dnnl::cpu_isa::avx512_core_bf16);
    return dnnl::engine(dnnl::engine::kind::cpu, 0);
  }();
  return e;
}

dnnl::primitive_attr attributes() {
  expect_memory_for_code();  // descriptors, too, are made without a look at what there is
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

memory::data_type type_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return memory::data_type::f32;
    case DType::bf16:
      return memory::data_type::bf16;
    case DType::i32:
      return memory::data_type::s32;
    case DType::u8:
      return memory::data_type::u8;
    case DType::f64:
      break;
  }
  fail("the cpu device does not compute in {}; use `precision` f32 or bf16", name_of(dtype));
}

static memory::dims dims_of(const Shape& shape) {
  return {shape.begin(), shape.end()};
}

Desc desc_any(const Shape& shape, DType dtype) {
  return Desc(dims_of(shape), type_of(dtype), memory::format_tag::any);
}

Desc desc_of(const Layout& layout) {
  const memory::dims dims = dims_of(layout.shape);
  const memory::data_type type = type_of(layout.dtype);
  if (layout.blocks.empty()) return Desc(dims, type, dims_of(layout.strides));
  const Desc desc =
      find_desc(layout.shape, layout.dtype, [&](const Layout& named) { return named == layout; });
  if (!desc) fail("oneDNN has no format tag for {}", layout.str());
  return desc;
}

Desc find_desc(const Shape& shape, DType dtype, const std::function<bool(const Layout&)>& wanted) {
  for (int tag = dnnl_format_tag_any + 1; tag < dnnl_format_tag_last; ++tag) {
    const Desc desc(dims_of(shape), type_of(dtype), static_cast<memory::format_tag>(tag),
                    /*allow_empty=*/true);
    if (desc && wanted(layout_of(desc))) return desc;
  }
  return {};
}

#if DNNL_VERSION_MAJOR >= 3
Layout layout_of(const Desc& desc) {
  if (desc.get_format_kind() != memory::format_kind::blocked) {
    fail("oneDNN chose a layout that is not strides plus blocks");
  }
  const auto shape = [](const memory::dims& dims) { return Shape(std::span<const int64_t>(dims)); };
  Layout layout{shape(desc.get_dims()),
                DType::f32,
                shape(desc.get_padded_dims()),
                shape(desc.get_strides()),
                {}};
  const memory::dims blocks = desc.get_inner_blks(), dims = desc.get_inner_idxs();
  const memory::data_type type = desc.get_data_type();
#else
Layout layout_of(const Desc& desc) {
  const dnnl_memory_desc_t& d = desc.data;
  if (d.format_kind != dnnl_blocked) fail("oneDNN chose a layout that is not strides plus blocks");
  const auto shape = [&](const dnnl_dim_t* dims) {
    return Shape(std::span<const int64_t>(dims, d.ndims));
  };
  const dnnl_blocking_desc_t& b = d.format_desc.blocking;
  Layout layout{shape(d.dims), DType::f32, shape(d.padded_dims), shape(b.strides), {}};
  const std::span<const int64_t> blocks(b.inner_blks, b.inner_nblks);
  const std::span<const int64_t> dims(b.inner_idxs, b.inner_nblks);
  const auto type = static_cast<memory::data_type>(d.data_type);
#endif
  for (DType t : {DType::bf16, DType::i32, DType::u8}) {
    if (type_of(t) == type) layout.dtype = t;
  }
  for (size_t i = 0; i < blocks.size(); ++i) {
    layout.blocks.push_back({static_cast<int>(dims[i]), blocks[i]});
  }
  return layout;
}

void expect_memory_for_code() {
  constexpr double kMiB = 16;  // many times what a primitive was seen to take
  expect_memory(kMiB);
}

Window window_over(const WindowAxes& axes, const Shape& x, const Shape& y) {
  Window w;
  for (int i : {0, 1}) {
    const WindowAxis& axis = axes[i];
    w.strides.push_back(axis.stride);
    w.dilation.push_back(axis.dilation - 1);
    w.padding_low.push_back(axis.before);
    w.padding_high.push_back(axis.start(y[2 + i] - 1) + axis.span() - x[2 + i]);
  }
  return w;
}

Call bind(const dnnl::primitive& primitive, const std::vector<Argument>& arguments) {
  struct BoundPrimitive {
    dnnl::primitive primitive;
    dnnl::stream stream;
    std::vector<memory> memories;
    std::vector<dnnl_exec_arg_t> arguments;
  };
  auto bound =
      std::make_shared<BoundPrimitive>(BoundPrimitive{primitive, dnnl::stream(engine()), {}, {}});
  for (const Argument& a : arguments) {
    bound->memories.emplace_back(a.desc, engine(), a.data);
    bound->arguments.push_back({a.id, bound->memories.back().get()});
  }
  return [bound](const Step&) {
    const dnnl_status_t status =
        dnnl_primitive_execute(bound->primitive.get(), bound->stream.get(),
                               static_cast<int>(bound->arguments.size()), bound->arguments.data());
    if (status != dnnl_success)
      fail("oneDNN failed to run a kernel (status {})", static_cast<int>(status));
  };
}

#if DNNL_VERSION_MAJOR >= 3
ConvForward conv_forward(dnnl::algorithm algorithm, const Desc& src, const Desc& weights,
                         const Desc& bias, const Desc& dst, const Window& w) {
  return {engine(),
          prop_kind::forward_training,
          algorithm,
          src,
          weights,
          bias,
          dst,
          w.strides,
          w.dilation,
          w.padding_low,
          w.padding_high,
          attributes()};
}

ConvBackwardData conv_backward_data(dnnl::algorithm algorithm, const Desc& diff_src,
                                    const Desc& weights, const Desc& diff_dst, const Window& w) {
  const ConvForward hint = conv_forward(algorithm, diff_src, weights, {}, diff_dst, w);
  return {engine(),   algorithm,     diff_src,       weights, diff_dst,    w.strides,
          w.dilation, w.padding_low, w.padding_high, hint,    attributes()};
}

ConvBackwardWeights conv_backward_weights(dnnl::algorithm algorithm, const Desc& src,
                                          const Desc& diff_weights, const Desc& diff_bias,
                                          const Desc& diff_dst, const Window& w) {
  const Desc weights = Desc(diff_weights.get_dims(), src.get_data_type(), memory::format_tag::any);
  const ConvForward hint = conv_forward(algorithm, src, weights, diff_bias, diff_dst, w);
  return {engine(),  algorithm,  src,           diff_weights,   diff_bias, diff_dst,
          w.strides, w.dilation, w.padding_low, w.padding_high, hint,      attributes()};
}

PoolForward pool_forward(dnnl::algorithm algorithm, const Desc& src, const Desc& dst,
                         const Window& w, const memory::dims& kernel) {
  return {engine(),      prop_kind::forward_training,
          algorithm,     src,
          dst,           w.strides,
          kernel,        w.dilation,
          w.padding_low, w.padding_high,
          attributes()};
}

PoolBackward pool_backward(dnnl::algorithm algorithm, const Desc& diff_src, const Desc& diff_dst,
                           const Window& w, const memory::dims& kernel) {
  const PoolForward hint = pool_forward(algorithm, diff_src, diff_dst, w, kernel);
  return {engine(),   algorithm,     diff_src,       diff_dst, w.strides,   kernel,
          w.dilation, w.padding_low, w.padding_high, hint,     attributes()};
}

LrnForward lrn_forward(const Desc& data, const Lrn& s) {
  return {engine(),
          prop_kind::forward_training,
          dnnl::algorithm::lrn_across_channels,
          data,
          data,
          s.size,
          s.alpha,
          s.beta,
          s.k,
          attributes()};
}

LrnBackward lrn_backward(const Desc& data, const Lrn& s) {
  return {engine(),    dnnl::algorithm::lrn_across_channels,
          data,        data,
          data,        s.size,
          s.alpha,     s.beta,
          s.k,         lrn_forward(data, s),
          attributes()};
}

DenseForward dense_forward(const Desc& src, const Desc& weights, const Desc& bias,
                           const Desc& dst) {
  return {engine(), prop_kind::forward_training, src, weights, bias, dst, attributes()};
}

DenseBackwardData dense_backward_data(const Desc& diff_src, const Desc& weights,
                                      const Desc& diff_dst) {
  const DenseForward hint = dense_forward(diff_src, weights, {}, diff_dst);
  return {engine(), diff_src, weights, diff_dst, hint, attributes()};
}

DenseBackwardWeights dense_backward_weights(const Desc& src, const Desc& diff_weights,
                                            const Desc& diff_bias, const Desc& diff_dst) {
  const Desc weights(diff_weights.get_dims(), src.get_data_type(), memory::format_tag::any);
  const DenseForward hint = dense_forward(src, weights, diff_bias, diff_dst);
  return {engine(), src, diff_weights, diff_bias, diff_dst, hint, attributes()};
}
#else
ConvForward conv_forward(dnnl::algorithm algorithm, const Desc& src, const Desc& weights,
                         const Desc& bias, const Desc& dst, const Window& w) {
  const auto training = prop_kind::forward_training;
  using Descriptor = dnnl::convolution_forward::desc;
  return {bias ? Descriptor(training, algorithm, src, weights, bias, dst, w.strides, w.dilation,
                            w.padding_low, w.padding_high)
               : Descriptor(training, algorithm, src, weights, dst, w.strides, w.dilation,
                            w.padding_low, w.padding_high),
          attributes(), engine()};
}

ConvBackwardData conv_backward_data(dnnl::algorithm algorithm, const Desc& diff_src,
                                    const Desc& weights, const Desc& diff_dst, const Window& w) {
  const ConvForward hint = conv_forward(algorithm, diff_src, weights, {}, diff_dst, w);
  return {dnnl::convolution_backward_data::desc(algorithm, diff_src, weights, diff_dst, w.strides,
                                                w.dilation, w.padding_low, w.padding_high),
          attributes(), engine(), hint};
}

ConvBackwardWeights conv_backward_weights(dnnl::algorithm algorithm, const Desc& src,
                                          const Desc& diff_weights, const Desc& diff_bias,
                                          const Desc& diff_dst, const Window& w) {
  const Desc weights(diff_weights.dims(), src.data_type(), memory::format_tag::any);
  const ConvForward hint = conv_forward(algorithm, src, weights, diff_bias, diff_dst, w);
  using Descriptor = dnnl::convolution_backward_weights::desc;
  return {diff_bias ? Descriptor(algorithm, src, diff_weights, diff_bias, diff_dst, w.strides,
                                 w.dilation, w.padding_low, w.padding_high)
                    : Descriptor(algorithm, src, diff_weights, diff_dst, w.strides, w.dilation,
                                 w.padding_low, w.padding_high),
          attributes(), engine(), hint};
}

PoolForward pool_forward(dnnl::algorithm algorithm, const Desc& src, const Desc& dst,
                         const Window& w, const memory::dims& kernel) {
  return {dnnl::pooling_forward::desc(prop_kind::forward_training, algorithm, src, dst, w.strides,
                                      kernel, w.padding_low, w.padding_high),
          attributes(), engine()};
}

PoolBackward pool_backward(dnnl::algorithm algorithm, const Desc& diff_src, const Desc& diff_dst,
                           const Window& w, const memory::dims& kernel) {
  const PoolForward hint = pool_forward(algorithm, diff_src, diff_dst, w, kernel);
  return {dnnl::pooling_backward::desc(algorithm, diff_src, diff_dst, w.strides, kernel,
                                       w.padding_low, w.padding_high),
          attributes(), engine(), hint};
}

LrnForward lrn_forward(const Desc& data, const Lrn& s) {
  return {dnnl::lrn_forward::desc(prop_kind::forward_training, dnnl::algorithm::lrn_across_channels,
                                  data, s.size, s.alpha, s.beta, s.k),
          attributes(), engine()};
}

LrnBackward lrn_backward(const Desc& data, const Lrn& s) {
  return {dnnl::lrn_backward::desc(dnnl::algorithm::lrn_across_channels, data, data, s.size,
                                   s.alpha, s.beta, s.k),
          attributes(), engine(), lrn_forward(data, s)};
}

DenseForward dense_forward(const Desc& src, const Desc& weights, const Desc& bias,
                           const Desc& dst) {
  const auto training = prop_kind::forward_training;
  using Descriptor = dnnl::inner_product_forward::desc;
  return {bias ? Descriptor(training, src, weights, bias, dst)
               : Descriptor(training, src, weights, dst),
          attributes(), engine()};
}

DenseBackwardData dense_backward_data(const Desc& diff_src, const Desc& weights,
                                      const Desc& diff_dst) {
  const DenseForward hint = dense_forward(diff_src, weights, {}, diff_dst);
  return {dnnl::inner_product_backward_data::desc(diff_src, weights, diff_dst), attributes(),
          engine(), hint};
}

DenseBackwardWeights dense_backward_weights(const Desc& src, const Desc& diff_weights,
                                            const Desc& diff_bias, const Desc& diff_dst) {
  const Desc weights(diff_weights.dims(), src.data_type(), memory::format_tag::any);
  const DenseForward hint = dense_forward(src, weights, diff_bias, diff_dst);
  using Descriptor = dnnl::inner_product_backward_weights::desc;
  return {diff_bias ? Descriptor(src, diff_weights, diff_bias, diff_dst)
                    : Descriptor(src, diff_weights, diff_dst),
          attributes(), engine(), hint};
}
#endif

dnnl::reorder::primitive_desc reorder(const Desc& from, const Desc& to) {
  return {engine(), from, engine(), to, attributes()};
}

}  // namespace crossbow::onednn
