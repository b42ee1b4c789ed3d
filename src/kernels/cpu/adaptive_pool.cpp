#include "ops/adaptive_pool.h"

#include "kernels/cpu/pool_loops.h"

namespace crossbow {
namespace {

PreparedKernel prepare(const PrepareContext& c) {
  return prepare_average_of_parts(c, c.input_type(0).shape, /*gradient=*/false);
}

PreparedKernel prepare_grad(const PrepareContext& c) {
  return prepare_average_of_parts(c, c.node.attrs<AdaptivePoolGradAttributes>().shape,
                                  /*gradient=*/true);
}

const RegisterKernel kPool{"cpu", "adaptive_avg_pool", prepare};
const RegisterKernel kGrad{"cpu", "adaptive_avg_pool_grad", prepare_grad};

}  // namespace
}  // namespace crossbow
