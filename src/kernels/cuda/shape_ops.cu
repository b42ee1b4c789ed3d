#include "ops/shape_ops.h"

#include "kernels/cuda/copy.h"

namespace crossbow::CROSSBOW_GRID {
namespace {

/// Some of the columns of a matrix, or the other way round: element i of the part is that of the
/// whole in the same row, so many columns further on.
template <typename T>
struct CopyColumns {
  int64_t part, whole, first;  // columns
  const T* from;
  T* to;
  bool into_whole;

  CROSSBOW_GPU void operator()(int64_t i) const {
    const int64_t at = i / part * whole + first + i % part;
    if (into_whole) {
      to[at] = from[i];
    } else {
      to[i] = from[at];
    }
  }
};

PreparedKernel prepare_reshape(const PrepareContext& context) {
  const Layout x = Layout::plain(context.input_type(0).shape, context.precision);
  const Layout y = Layout::plain(context.node.outputs[0].shape, context.precision);
  return copying(x, y);
}

PreparedKernel prepare_concat(const PrepareContext& context) {
  const Layout y = activation_layout(context.node.outputs[0].shape, context.precision);
  PreparedKernel kernel = prepared({}, {y});
  for (size_t i = 0; i < context.node.inputs.size(); ++i) {
    kernel.inputs.push_back(input_layout(context, i));
  }
  kernel.bind = bind_storage(y.dtype, [parts = kernel.inputs, y](auto t, const Operands& o) {
    using T = decltype(t);
    std::vector<CopyColumns<T>> copies;
    int64_t first = 0;
    for (size_t i = 0; i < parts.size(); ++i) {
      const int64_t columns = parts[i].shape[1];
      copies.push_back({columns, y.shape[1], first, as<T>(o.inputs[i]), as<T>(o.outputs[0]),
                        /*into_whole=*/true});
      first += columns;
    }
    return [copies, rows = y.elements() / y.shape[1]](const Step&) {
      for (const auto& copy : copies) for_each(rows * copy.part, copy);
    };
  });
  return kernel;
}

PreparedKernel prepare_slice(const PrepareContext& context) {
  const Layout x = input_layout(context, 0);
  const Layout y = activation_layout(context.node.outputs[0].shape, x.dtype);
  const int64_t first = context.node.attrs<SliceAttributes>().begin;
  return elementwise({x}, {y}, y, [=](auto t, const Operands& o) {
    using T = decltype(t);
    return CopyColumns<T>{y.shape[1],         x.shape[1],          first,
                          as<T>(o.inputs[0]), as<T>(o.outputs[0]), /*into_whole=*/false};
  });
}

const RegisterKernel kReshape{kDevice, "reshape", prepare_reshape};
const RegisterKernel kConcat{kDevice, "concat", prepare_concat};
const RegisterKernel kSlice{kDevice, "slice_channels", prepare_slice};

}  // namespace
}  // namespace crossbow::CROSSBOW_GRID
