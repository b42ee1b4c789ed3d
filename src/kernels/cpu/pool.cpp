#include "ops/pool.h"

#include <dnnl.hpp>

#include "kernels/cpu/onednn.h"
#include "kernels/cpu/pool_loops.h"
#include "kernels/cpu/prepare.h"

namespace crossbow {
namespace {

/// Whether oneDNN has a kernel beyond its slow reference.
bool is_onednns(const PoolAttributes& a) {
  return a.dilation == Size2(1);
}

dnnl::memory::dims kernel_of(const PoolAttributes& a) {
  return {a.kernel.height, a.kernel.width};
}

PreparedKernel prepare_max_pool(const PrepareContext& c) {
  const auto& a = c.node.attrs<PoolAttributes>();
  if (!is_onednns(a)) return prepare_max_by_loops(c);
  const auto window = onednn::window_over(a.axes(), c.input_type(0).shape, c.node.outputs[0].shape);
  const Layout x = channelwise_layout(c, 0).with_dtype(c.precision);
  // Left to itself the library takes y's order of dimensions from x's strides, and those of
  // dimensions of size 1 are arbitrary.
  const Layout y = arranged_like(x, c.node.outputs[0].shape, c.precision);
  const auto desc = onednn::pool_forward(dnnl::algorithm::pooling_max, onednn::desc_of(x),
                                         onednn::desc_of(y), window, kernel_of(a));
  return onednn::run_by<dnnl::pooling_forward>(
      desc,
      {onednn::input(0, DNNL_ARG_SRC, desc.src_desc()),
       onednn::output(0, DNNL_ARG_DST, desc.dst_desc()),
       onednn::output(1, DNNL_ARG_WORKSPACE, desc.workspace_desc())},
      {{x}, {y, onednn::layout_of(desc.workspace_desc())}});
}

PreparedKernel prepare_max_pool_grad(const PrepareContext& c) {
  const auto& a = c.node.attrs<PoolGradAttributes>();
  if (!is_onednns(a)) return prepare_max_grad_by_loops(c);
  const auto window = onednn::window_over(a.axes(), a.shape, c.input_type(0).shape);
  // The workspace fixes the layout that the forward pass wrote, so dy has to lie the same way.
  const Layout& workspace = *c.offered[1];
  const Layout dy = workspace.with_dtype(c.precision);
  const Layout dx = arranged_like(workspace, a.shape, c.precision);
  const auto desc = onednn::pool_backward(dnnl::algorithm::pooling_max, onednn::desc_of(dx),
                                          onednn::desc_of(dy), window, kernel_of(a));
  return onednn::run_by<dnnl::pooling_backward>(
      desc,
      {onednn::input(0, DNNL_ARG_DIFF_DST, desc.diff_dst_desc()),
       onednn::input(1, DNNL_ARG_WORKSPACE, desc.workspace_desc()),
       onednn::output(0, DNNL_ARG_DIFF_SRC, desc.diff_src_desc())},
      {{dy, workspace}, {onednn::layout_of(desc.diff_src_desc())}});
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
