// On one thread: a batch's factors are few.
#include "ops/row_dot.h"

#include <algorithm>
#include <array>

#include "kernels/cpu/prepare.h"

namespace crossbow {
namespace {

PreparedKernel prepare_dot(const PrepareContext& c) {
  const Shape& x = c.input_type(0).shape;
  PreparedKernel kernel{{plain_f32(x), plain_f32(x)}, {plain_f32(c.node.outputs[0].shape)}};
  kernel.implementation = loops_implementation();
  kernel.bind = [rows = x[0], columns = x[1]](Operands o) -> Call {
    return [=, a = as<float>(o.inputs[0]), b = as<float>(o.inputs[1]),
            y = as<float>(o.outputs[0])](const Step&) {
      for (int64_t n = 0; n < rows; ++n) {
        y[n] = static_cast<float>(loops().dot(a + n * columns, b + n * columns, columns));
      }
    };
  };
  return kernel;
}

PreparedKernel prepare_dot_grad(const PrepareContext& c) {
  const Shape& x = c.input_type(1).shape;
  PreparedKernel kernel{{plain_f32({x[0], 1}), plain_f32(x), plain_f32(x)},
                        {plain_f32(x), plain_f32(x)}};
  kernel.implementation = loops_implementation();
  kernel.bind = [rows = x[0], columns = x[1]](Operands o) -> Call {
    const std::array<const float*, 2> from{as<float>(o.inputs[2]), as<float>(o.inputs[1])};
    const std::array<float*, 2> to{as<float>(o.outputs[0]), as<float>(o.outputs[1])};
    return [=, dy = as<float>(o.inputs[0])](const Step&) {
      for (size_t i = 0; i < to.size(); ++i) {
        for (int64_t n = 0; n < rows; ++n) {
          const float* const other = from[i] + n * columns;
          loops().combine(&dy[n], &other, 1, to[i] + n * columns, 0, columns);
        }
      }
    };
  };
  return kernel;
}

PreparedKernel prepare_decay(const PrepareContext& c) {
  const Layout x = c.offered_or_plain(0);
  PreparedKernel kernel{{x}, {x}};
  kernel.implementation = "loops:copy";
  kernel.bind = [bytes = x.bytes()](Operands o) -> Call {
    return [=, x = as<std::byte>(o.inputs[0]), y = as<std::byte>(o.outputs[0])](const Step&) {
      if (x != y) std::copy_n(x, bytes, y);
    };
  };
  return kernel;
}

PreparedKernel prepare_decay_grad(const PrepareContext& c) {
  const Layout x = plain_f32(c.input_type(1).shape);
  PreparedKernel kernel{{x, x}, {x}};
  kernel.implementation = loops_implementation();
  const float decay = c.node.attrs<RowDecayAttributes>().decay;
  const std::array<float, 2> factors{1, 2 * decay / static_cast<float>(x.shape[0])};
  kernel.bind = [factors, n = x.elements()](Operands o) -> Call {
    const std::array<const float*, 2> terms{as<float>(o.inputs[0]), as<float>(o.inputs[1])};
    return [=, dx = as<float>(o.outputs[0])](const Step&) {
      loops().combine(factors.data(), terms.data(), 2, dx, 0, n);
    };
  };
  return kernel;
}

const RegisterKernel kDot{"cpu", "row_dot", prepare_dot};
const RegisterKernel kDotGrad{"cpu", "row_dot_grad", prepare_dot_grad};
const RegisterKernel kDecay{"cpu", "row_decay", prepare_decay};
const RegisterKernel kDecayGrad{"cpu", "row_decay_grad", prepare_decay_grad};

}  // namespace
}  // namespace crossbow
