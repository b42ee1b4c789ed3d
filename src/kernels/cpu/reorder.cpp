#include <dnnl.hpp>

#include "kernels/cpu/onednn.h"
#include "kernels/cpu/pair_tiles.h"

namespace crossbow {
namespace {

PreparedKernel prepare_reorder(const Layout& from, const Layout& to, int threads) {
  if (auto kernel = prepare_pairs(from, to, threads)) return *std::move(kernel);
  const auto desc = onednn::reorder(onednn::desc_of(from), onednn::desc_of(to));
  return onednn::run_by<dnnl::reorder>(desc,
                                       {onednn::input(0, DNNL_ARG_FROM, desc.src_desc()),
                                        onednn::output(0, DNNL_ARG_TO, desc.dst_desc())},
                                       {{from}, {to}});
}

const bool kRegistered = [] {
  KernelRegistry::of("cpu").set_reorder(prepare_reorder);
  return true;
}();

}  // namespace
}  // namespace crossbow
