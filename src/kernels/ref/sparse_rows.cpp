#include "ops/sparse_rows.h"

#include <algorithm>

#include "kernels/ref/ref.h"

namespace crossbow::ref {
namespace {

/// The first row of a part of a batch does not begin at 0 there.
template <typename T>
void sparse_rows(const Run& run) {
  const auto* const values = static_cast<const float*>(run.step.inputs[kValues]);
  const auto* const columns = static_cast<const int32_t*>(run.step.inputs[kColumns]);
  const auto* const extents = static_cast<const int32_t*>(run.step.inputs[kExtents]);
  int32_t end = 0;
  for (int64_t i = 0; i < run.out_shape(2).elements(); ++i) {
    const int32_t at = extents[i] - extents[0];
    run.out<int32_t>(2)[i] = at;
    end = std::max(end, at);
  }
  std::copy_n(values, end, run.out<T>(0));
  std::copy_n(columns, end, run.out<int32_t>(1));
}

const RegisterKernel kSparseRows{"ref", "sparse_rows",
                                 prepare<sparse_rows<float>, sparse_rows<double>>};

}  // namespace
}  // namespace crossbow::ref
