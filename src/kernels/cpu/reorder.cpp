#include <dnnl.hpp>

#include "kernels/cpu/onednn.h"

namespace crossbow {
namespace {

PreparedKernel prepare_reorder(const Layout& from, const Layout& to, int) {
  const auto desc = onednn::reorder(onednn::desc_of(from), onednn::desc_of(to));
  PreparedKernel kernel{{from}, {to}};
  kernel.scratch_bytes = desc.scratchpad_desc().get_size();
  kernel.implementation = onednn::implementation(desc);
  kernel.bind = [desc](Operands o) {
    return onednn::bind(dnnl::reorder(desc),
                        {{DNNL_ARG_FROM, desc.src_desc(), o.inputs[0]},
                         {DNNL_ARG_TO, desc.dst_desc(), o.outputs[0]},
                         {DNNL_ARG_SCRATCHPAD, desc.scratchpad_desc(), o.scratch}});
  };
  return kernel;
}

const bool kRegistered = [] {
  KernelRegistry::of("cpu").set_reorder(prepare_reorder);
  return true;
}();

}  // namespace
}  // namespace crossbow
