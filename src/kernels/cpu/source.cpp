#include "graph/source.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include "kernels/cpu/prepare.h"

namespace crossbow {
namespace {

/// By table, whose values are exact and the same on every machine; a multiply-add need not be.
PreparedKernel prepare_pixels(const PrepareContext& context) {
  const auto& a = context.node.attrs<InputAttributes>();
  const Shape& shape = context.node.outputs[0].shape;
  PreparedKernel kernel{{}, {plain_f32(shape)}};
  kernel.implementation = "loops:normalise_pixels";
  const auto table =
      std::make_shared<const NormalisationTable>(table_of(*a.normalisation, shape[1]));
  kernel.bind = [table, slot = a.slot, planes = shape[0] * shape[1], plane = shape[2] * shape[3],
                 threads = context.threads](Operands o) -> Call {
    return [=, to = as<float>(o.outputs[0])](const Step& step) {
      const auto* const from = static_cast<const uint8_t*>(step.inputs[slot]);
      parallel_ranges(threads, planes * plane, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end;) {
          const auto p = static_cast<size_t>(i / plane);
          const std::array<float, 256>& values = (*table)[p % table->size()];
          const int64_t stop = std::min(end, i - i % plane + plane);
          for (; i < stop; ++i) to[i] = values[from[i]];
        }
      });
    };
  };
  return kernel;
}

/// The batch is fed as f32 or as pixels whatever the precision; the plan converts it.
PreparedKernel prepare_input(const PrepareContext& context) {
  if (context.node.attrs<InputAttributes>().normalisation) return prepare_pixels(context);
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
