// All that the CPU kernels know of oneDNN, for its versions 2.6 and 3: descriptors, layouts, and
// primitives bound to memory. Only files of this folder include it.
#pragma once

#include <dnnl.hpp>

#include <functional>
#include <vector>

#include "kernels/kernel.h"
#include "ops/window.h"

namespace crossbow::onednn {

dnnl::engine engine();
/// Scratchpads come from the plan's arena, not from the library.
dnnl::primitive_attr attributes();
dnnl::memory::data_type type_of(DType dtype);

dnnl::memory::desc desc_of(const Layout& layout);
/// A blocked layout can only be named by the library's tag for it: the first that `wanted` takes,
/// or an empty one.
dnnl::memory::desc find_desc(const Shape& shape, DType dtype,
                             const std::function<bool(const Layout&)>& wanted);
/// Leaves the layout to the library.
dnnl::memory::desc desc_any(const Shape& shape, DType dtype);
/// Throws Error for the formats of oneDNN that are not strides plus blocks.
Layout layout_of(const dnnl::memory::desc& desc);

/// One argument of a primitive: DNNL_ARG_SRC and so on.
struct Argument {
  int id;
  dnnl::memory::desc desc;
  void* data;
};
/// The primitive over fixed addresses, with argument list and stream made in advance, for
/// `dnnl_primitive_execute` would otherwise build them at each call.
Call bind(const dnnl::primitive& primitive, const std::vector<Argument>& arguments);
/// Throws Error where memory is so short that the library, which does not look whether it got the
/// memory for a primitive's code, might crash.
void expect_memory_for_code();
template <typename Primitive>
Call bind(const typename Primitive::primitive_desc& desc, const std::vector<Argument>& arguments) {
  expect_memory_for_code();
  return onednn::bind(Primitive(desc), arguments);
}

/// The name of the implementation behind a primitive descriptor, e.g. "jit:avx512_core".
template <typename PrimitiveDesc>
std::string implementation(const PrimitiveDesc& desc) {
  return desc.impl_info_str();
}

/// Which operand of a kernel becomes which argument of its primitive.
struct Wire {
  int id;
  dnnl::memory::desc desc;
  bool is_output;
  size_t index;  // among the kernel's inputs or outputs
};
inline Wire input(size_t index, int id, const dnnl::memory::desc& desc) {
  return {id, desc, false, index};
}
inline Wire output(size_t index, int id, const dnnl::memory::desc& desc) {
  return {id, desc, true, index};
}

/// `kernel`, whose layouts are settled, as one run of `Primitive`: with its scratch and its name.
template <typename Primitive>
PreparedKernel run_by(const typename Primitive::primitive_desc& desc, std::vector<Wire> wires,
                      PreparedKernel kernel) {
  kernel.scratch_bytes = desc.scratchpad_desc().get_size();
  kernel.implementation = implementation(desc);
  kernel.bind = [desc, wires = std::move(wires)](Operands o) {
    std::vector<Argument> arguments{{DNNL_ARG_SCRATCHPAD, desc.scratchpad_desc(), o.scratch}};
    for (const Wire& w : wires) {
      arguments.push_back({w.id, w.desc, (w.is_output ? o.outputs : o.inputs)[w.index]});
    }
    return onednn::bind<Primitive>(desc, arguments);
  };
  return kernel;
}

/// Sizes of a window that slides over an image: convolution and pooling.
struct Window {
  dnnl::memory::dims strides, dilation, padding_low, padding_high;
};
/// That of x -> y. The padding behind x is what makes oneDNN's floor rule give y; it is negative
/// where the last window does not reach the end of x.
Window window_over(const WindowAxes& axes, const Shape& x, const Shape& y);

// Primitive descriptors. `Algorithm` is direct or Winograd; bias may be an empty descriptor.
using ConvForward = dnnl::convolution_forward::primitive_desc;
using ConvBackwardData = dnnl::convolution_backward_data::primitive_desc;
using ConvBackwardWeights = dnnl::convolution_backward_weights::primitive_desc;
using Desc = dnnl::memory::desc;

ConvForward conv_forward(dnnl::algorithm algorithm, const Desc& src, const Desc& weights,
                         const Desc& bias, const Desc& dst, const Window& window);
ConvBackwardData conv_backward_data(dnnl::algorithm algorithm, const Desc& diff_src,
                                    const Desc& weights, const Desc& diff_dst,
                                    const Window& window);
ConvBackwardWeights conv_backward_weights(dnnl::algorithm algorithm, const Desc& src,
                                          const Desc& diff_weights, const Desc& diff_bias,
                                          const Desc& diff_dst, const Window& window);
/// Whether this version has Winograd convolutions (2.x has, 3 dropped them).
constexpr bool has_winograd() {
  return DNNL_VERSION_MAJOR < 3;
}

using PoolForward = dnnl::pooling_forward::primitive_desc;
using PoolBackward = dnnl::pooling_backward::primitive_desc;
PoolForward pool_forward(dnnl::algorithm algorithm, const Desc& src, const Desc& dst,
                         const Window& window, const dnnl::memory::dims& kernel);
PoolBackward pool_backward(dnnl::algorithm algorithm, const Desc& diff_src, const Desc& diff_dst,
                           const Window& window, const dnnl::memory::dims& kernel);

/// Local response normalisation across channels; alpha is divided by the size.
struct Lrn {
  int64_t size;
  float alpha, beta, k;
};
using LrnForward = dnnl::lrn_forward::primitive_desc;
using LrnBackward = dnnl::lrn_backward::primitive_desc;
LrnForward lrn_forward(const Desc& data, const Lrn& sizes);
LrnBackward lrn_backward(const Desc& data, const Lrn& sizes);

using DenseForward = dnnl::inner_product_forward::primitive_desc;
using DenseBackwardData = dnnl::inner_product_backward_data::primitive_desc;
using DenseBackwardWeights = dnnl::inner_product_backward_weights::primitive_desc;
DenseForward dense_forward(const Desc& src, const Desc& weights, const Desc& bias, const Desc& dst);
DenseBackwardData dense_backward_data(const Desc& diff_src, const Desc& weights,
                                      const Desc& diff_dst);
DenseBackwardWeights dense_backward_weights(const Desc& src, const Desc& diff_weights,
                                            const Desc& diff_bias, const Desc& diff_dst);

dnnl::reorder::primitive_desc reorder(const Desc& from, const Desc& to);

}  // namespace crossbow::onednn
