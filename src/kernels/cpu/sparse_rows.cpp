#include "ops/sparse_rows.h"

#include <algorithm>

#include "kernels/cpu/prepare.h"

namespace crossbow {
namespace {

/// The first row of a part of a batch does not begin at 0 there.
PreparedKernel prepare(const PrepareContext& context) {
  PreparedKernel kernel;
  for (const TensorType& type : context.node.outputs) {
    kernel.outputs.push_back(Layout::plain(type.shape, type.dtype));
  }
  kernel.implementation = "loops:copy";
  kernel.bind = [n = kernel.outputs[2].elements()](Operands o) -> Call {
    return [=, values = as<float>(o.outputs[0]), columns = as<int32_t>(o.outputs[1]),
            extents = as<int32_t>(o.outputs[2])](const Step& step) {
      const auto* const given = static_cast<const int32_t*>(step.inputs[kExtents]);
      int32_t end = 0;
      for (int64_t i = 0; i < n; ++i) {
        extents[i] = given[i] - given[0];
        end = std::max(end, extents[i]);
      }
      std::copy_n(static_cast<const float*>(step.inputs[kValues]), end, values);
      std::copy_n(static_cast<const int32_t*>(step.inputs[kColumns]), end, columns);
    };
  };
  return kernel;
}

const RegisterKernel kSparseRows{"cpu", "sparse_rows", prepare};

}  // namespace
}  // namespace crossbow
