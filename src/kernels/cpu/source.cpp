#include "graph/source.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/prepare.h"

namespace crossbow {
namespace {

/// The batch is fed as f32 whatever the precision; the plan converts it.
PreparedKernel prepare_input(const PrepareContext& context) {
  const TensorType& type = context.node.outputs[0];
  const Layout y = Layout::plain(type.shape, type.dtype);
  PreparedKernel kernel{{}, {y}};
  kernel.implementation = "loops:copy";
  kernel.bind = [slot = context.node.attrs<InputAttributes>().slot, bytes = y.bytes(),
                 threads = context.threads](Operands o) -> Call {
    return [=, to = as<std::byte>(o.outputs[0])](const Step& step) {
      const auto from = static_cast<const std::byte*>(step.inputs[slot]);
      parallel_ranges(threads, static_cast<int64_t>(bytes), [&](int64_t begin, int64_t end) {
        std::memcpy(to + begin, from + begin, end - begin);
      });
    };
  };
  return kernel;
}

PreparedKernel prepare_fill(const PrepareContext& context) {
  const Layout y = plain_f32(context.node.outputs[0].shape);
  PreparedKernel kernel{{}, {y}};
  kernel.implementation = "loops:fill";
  kernel.bind = [value = context.node.attrs<FillAttributes>().value,
                 n = y.elements()](Operands o) -> Call {
    return [=, to = as<float>(o.outputs[0])](const Step&) { std::fill_n(to, n, value); };
  };
  return kernel;
}

const RegisterKernel kInput{"cpu", "input", prepare_input};
const RegisterKernel kFill{"cpu", "fill", prepare_fill};

}  // namespace
}  // namespace crossbow
