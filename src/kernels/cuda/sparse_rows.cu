#include "ops/sparse_rows.h"

#include "kernels/cuda/rows.h"
#include "kernels/cuda/sparse.h"

namespace crossbow::CROSSBOW_GRID {
namespace {

/// A row that keeps its place among the numbers, by a warp; `first` becomes column 0.
CROSSBOW_GPU inline void write_row(const Thread& t, int64_t row, int32_t begin, int32_t end,
                                   const float* values, const int32_t* columns, int32_t first,
                                   const SparseNumbers& to) {
  const int lane = t.rank() % kWarp;
  if (lane == 0) {
    to.extents[2 * row] = begin;
    to.extents[2 * row + 1] = end;
  }
  CROSSBOW_ROLLED
  for (int32_t i = begin + lane; i < end; i += kWarp) {
    to.values[i] = values[i];
    to.columns[i] = columns[i] - first;
  }
}

/// The first row of a part of a batch does not begin at 0 there.
struct SparseRows {
  const Step* step;
  Rows shape;
  SparseNumbers to;

  CROSSBOW_GPU void operator()(const Thread& t) const {
    const auto* const values = static_cast<const float*>(step->inputs[kValues]);
    const auto* const columns = static_cast<const int32_t*>(step->inputs[kColumns]);
    const auto* const extents = static_cast<const int32_t*>(step->inputs[kExtents]);
    shape.for_each(t, [&](int64_t row, bool exists) {
      if (!exists) return;
      write_row(t, row, extents[2 * row] - extents[0], extents[2 * row + 1] - extents[0], values,
                columns, 0, to);
    });
  }
};

struct ColumnSlice {
  Rows shape;
  int64_t first, features;
  SparseNumbers from, to;

  CROSSBOW_GPU void operator()(const Thread& t) const {
    shape.for_each(t, [&](int64_t row, bool exists) {
      if (!exists) return;
      const int32_t end = from.extents[2 * row + 1];
      const int32_t begin = first_from(from.columns, from.extents[2 * row], end, first);
      write_row(t, row, begin, first_from(from.columns, begin, end, first + features), from.values,
                from.columns, static_cast<int32_t>(first), to);
    });
  }
};

std::vector<Layout> layouts_of(const PrepareContext& context) {
  return SparseNumbers::layouts([&](size_t i) { return context.node.outputs[i]; });
}

PreparedKernel prepare(const PrepareContext& context) {
  PreparedKernel kernel = prepared({}, layouts_of(context));
  const Shape& extents = kernel.outputs[2].shape;
  kernel.bind = [shape = Rows{extents[0], extents[1]}](const Operands& o) -> Call {
    return [=, to = SparseNumbers::of(o.outputs)](const Step& step) {
      launch(shape.grid(), SparseRows{&step, shape, to});
    };
  };
  return kernel;
}

PreparedKernel prepare_slice(const PrepareContext& context) {
  PreparedKernel kernel = prepared(layouts_of(context), layouts_of(context));
  const auto& a = context.node.attrs<ColumnSliceAttributes>();
  const Shape& extents = kernel.outputs[2].shape;
  const Rows shape{extents[0], extents[1]};
  kernel.bind = [=, first = a.first, features = a.features](const Operands& o) -> Call {
    const ColumnSlice slice{shape, first, features, SparseNumbers::of(o.inputs),
                            SparseNumbers::of(o.outputs)};
    return [=](const Step&) { launch(shape.grid(), slice); };
  };
  return kernel;
}

const RegisterKernel kSparseRows{kDevice, "sparse_rows", prepare};
const RegisterKernel kColumnSlice{kDevice, "column_slice", prepare_slice};

}  // namespace
}  // namespace crossbow::CROSSBOW_GRID
