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

template <typename T>
void column_slice(const Run& run) {
  const auto& a = run.attrs<ColumnSliceAttributes>();
  const int32_t *columns = run.in<int32_t>(1), *extents = run.in<int32_t>(2);
  int32_t end = 0;
  for (int64_t row = 0; row < run.in_shape(2)[0]; ++row) {
    run.out<int32_t>(2)[2 * row] = end;
    for (int32_t i = extents[2 * row]; i < extents[2 * row + 1]; ++i) {
      const int64_t column = columns[i] - a.first;
      if (column < 0 || column >= a.features) continue;
      run.out<T>(0)[end] = run.in<T>(0)[i];
      run.out<int32_t>(1)[end++] = static_cast<int32_t>(column);
    }
    run.out<int32_t>(2)[2 * row + 1] = end;
  }
}

const RegisterKernel kColumnSlice{"ref", "column_slice",
                                  prepare<column_slice<float>, column_slice<double>>};
const RegisterKernel kSparseRows{"ref", "sparse_rows",
                                 prepare<sparse_rows<float>, sparse_rows<double>>};

}  // namespace
}  // namespace crossbow::ref
