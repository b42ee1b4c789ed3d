#include "graph/source.h"

#include "kernels/cuda/prepare.h"

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

struct Fill {
  float value;
  float* y;

  CROSSBOW_GPU void operator()(int64_t i) const { y[i] = value; }
};

PreparedKernel prepare_input(const PrepareContext& context) {
  const TensorType& type = context.node.outputs[0];
  const Layout y = Layout::plain(type.shape, type.dtype);
  PreparedKernel kernel = prepared({}, {y});
  kernel.bind = [slot = context.node.attrs<InputAttributes>().slot,
                 n = y.elements()](const Operands& o) -> Call {
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
