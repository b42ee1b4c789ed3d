#include "ops/local_response_norm.h"

#include <dnnl.hpp>

#include "kernels/cpu/local_response_norm_loops.h"
#include "kernels/cpu/onednn.h"
#include "kernels/cpu/prepare.h"

namespace crossbow {
namespace {

onednn::Lrn sizes_of(const PrepareContext& c) {
  const auto& a = c.node.attrs<LocalResponseNormAttributes>();
  return {a.size, a.alpha, a.beta, a.k};
}

bool is_reference(const std::string& implementation) {
  return implementation.find("ref") != std::string::npos;
}

/// How x lies where the library computes both passes, which share a workspace whose form is its
/// own: as offered, or in blocks of channels. Absent where it has only its reference.
std::optional<Layout> library_layout(const PrepareContext& c, size_t i) {
  constexpr int64_t kBlock = 16;
  const Layout offered = channelwise_layout(c, i).with_dtype(c.precision);
  std::vector<Layout> layouts{offered};
  if (offered.shape[1] % kBlock == 0) {
    layouts.push_back(Layout::channel_blocked(offered.shape, offered.dtype, kBlock));
  }
  for (const Layout& x : layouts) {
    const onednn::Desc data = onednn::desc_of(x);
    if (!is_reference(onednn::implementation(onednn::lrn_forward(data, sizes_of(c)))) &&
        !is_reference(onednn::implementation(onednn::lrn_backward(data, sizes_of(c))))) {
      return x;
    }
  }
  return {};
}

PreparedKernel prepare(const PrepareContext& c) {
  const auto x = library_layout(c, 0);
  if (!x) return prepare_response_by_loops(c);
  const auto desc = onednn::lrn_forward(onednn::desc_of(*x), sizes_of(c));
  return onednn::run_by<dnnl::lrn_forward>(
      desc,
      {onednn::input(0, DNNL_ARG_SRC, desc.src_desc()),
       onednn::output(0, DNNL_ARG_DST, desc.dst_desc()),
       onednn::output(1, DNNL_ARG_WORKSPACE, desc.workspace_desc())},
      {{*x}, {*x, onednn::layout_of(desc.workspace_desc())}});
}

PreparedKernel prepare_grad(const PrepareContext& c) {
  const auto x = library_layout(c, 1);
  if (!x) return prepare_response_grad_by_loops(c);
  const onednn::Desc data = onednn::desc_of(*x);
  const auto desc = onednn::lrn_backward(data, sizes_of(c));
  return onednn::run_by<dnnl::lrn_backward>(
      desc,
      {onednn::input(0, DNNL_ARG_DIFF_DST, desc.diff_dst_desc()),
       onednn::input(1, DNNL_ARG_SRC, data),
       onednn::input(2, DNNL_ARG_WORKSPACE, desc.workspace_desc()),
       onednn::output(0, DNNL_ARG_DIFF_SRC, desc.diff_src_desc())},
      {{*x, *x, onednn::layout_of(desc.workspace_desc())}, {*x}});
}

const RegisterKernel kForward{"cpu", "local_response_norm", prepare};
const RegisterKernel kGrad{"cpu", "local_response_norm_grad", prepare_grad};

}  // namespace
}  // namespace crossbow
