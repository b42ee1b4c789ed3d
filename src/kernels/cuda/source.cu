#include "graph/source.h"

#include "kernels/cuda/prepare.h"
#include "kernels/cuda/strides.h"

namespace crossbow::CROSSBOW_GRID {
namespace {

struct Input {
  const Step* step;
  int slot;
  int32_t* y;  // f32 or i32: what has four bytes

  CROSSBOW_GPU void operator()(int64_t i) const {
    y[i] = static_cast<const int32_t*>(step->inputs[static_cast<size_t>(slot)])[i];
  }
};

/// Of floats that are to lie elsewhere or as another type.
template <typename T>
struct Converted {
  const Step* step;
  int slot;
  Strides strides;
  T* y;

  CROSSBOW_GPU void operator()(int64_t i) const {
    y[strides.offset(static_cast<int32_t>(i))] =
        static_cast<const float*>(step->inputs[static_cast<size_t>(slot)])[i];
  }
};

struct Fill {
  float value;
  float* y;

  CROSSBOW_GPU void operator()(int64_t i) const { y[i] = value; }
};

PreparedKernel prepare_input(const PrepareContext& context) {
  const TensorType& type = context.node.outputs[0];
  const Layout plain = Layout::plain(type.shape, type.dtype);
  const int slot = context.node.attrs<InputAttributes>().slot;
  const std::optional<Layout>& wish = context.required[0];
  if (wish && *wish != plain && Strides::know(plain) && Strides::know(*wish)) {
    PreparedKernel kernel = prepared({}, {*wish});
    kernel.bind = [=, n = plain.elements(), strides = Strides(*wish),
                   dtype = wish->dtype](const Operands& o) {
      return with_storage(dtype, [&](auto t) -> Call {
        using T = decltype(t);
        return [=, y = as<T>(o.outputs[0])](const Step& step) {
          for_each(n, Converted<T>{&step, slot, strides, y});
        };
      });
    };
    return kernel;
  }
  PreparedKernel kernel = prepared({}, {plain});
  kernel.bind = [slot, n = plain.elements()](const Operands& o) -> Call {
    return [=, y = as<int32_t>(o.outputs[0])](const Step& step) {
      for_each(n, Input{&step, slot, y});
    };
  };
  return kernel;
}

PreparedKernel prepare_fill(const PrepareContext& context) {
  const Layout y = plain_f32(context.node.outputs[0].shape);
  PreparedKernel kernel = prepared({}, {y});
  kernel.bind = [value = context.node.attrs<FillAttributes>().value,
                 n = y.elements()](const Operands& o) -> Call {
    return [=, y = as<float>(o.outputs[0])](const Step&) { for_each(n, Fill{value, y}); };
  };
  return kernel;
}

const RegisterKernel kInput{kDevice, "input", prepare_input};
const RegisterKernel kFill{kDevice, "fill", prepare_fill};

}  // namespace
}  // namespace crossbow::CROSSBOW_GRID
