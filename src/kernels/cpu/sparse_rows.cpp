#include "ops/sparse_rows.h"

#include <algorithm>

#include "kernels/cpu/prepare.h"

namespace crossbow {
namespace {

PreparedKernel copying(const PrepareContext& context) {
  PreparedKernel kernel;
  for (const TensorType& type : context.node.outputs) {
    kernel.outputs.push_back(Layout::plain(type.shape, type.dtype));
  }
  kernel.implementation = "loops:copy";
  return kernel;
}

/// The first row of a part of a batch does not begin at 0 there.
PreparedKernel prepare(const PrepareContext& context) {
  PreparedKernel kernel = copying(context);
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

PreparedKernel prepare_slice(const PrepareContext& context) {
  PreparedKernel kernel = copying(context);
  kernel.inputs = kernel.outputs;
  const auto& a = context.node.attrs<ColumnSliceAttributes>();
  kernel.bind = [rows = kernel.outputs[2].shape[0], first = static_cast<int32_t>(a.first),
                 features = static_cast<uint32_t>(a.features)](Operands o) -> Call {
    return [=, x = as<float>(o.inputs[0]), from = as<int32_t>(o.inputs[1]),
            extents = as<int32_t>(o.inputs[2]), values = as<float>(o.outputs[0]),
            columns = as<int32_t>(o.outputs[1]), slices = as<int32_t>(o.outputs[2])](const Step&) {
      int32_t end = 0;
      for (int64_t row = 0; row < rows; ++row) {
        slices[2 * row] = end;
        for (int32_t i = extents[2 * row]; i < extents[2 * row + 1]; ++i) {
          const int32_t column = from[i] - first;
          if (static_cast<uint32_t>(column) >= features) continue;  // also one before the first
          values[end] = x[i];
          columns[end++] = column;
        }
        slices[2 * row + 1] = end;
      }
    };
  };
  return kernel;
}

const RegisterKernel kColumnSlice{"cpu", "column_slice", prepare_slice};
const RegisterKernel kSparseRows{"cpu", "sparse_rows", prepare};

}  // namespace
}  // namespace crossbow
