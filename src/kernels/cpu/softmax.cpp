#include "kernels/cpu/prepare.h"

namespace crossbow {
namespace {

PreparedKernel prepare(const PrepareContext& context) {
  const Layout rows = plain_f32(context.node.outputs[0].shape);
  PreparedKernel kernel{{rows}, {rows}};
  kernel.implementation = loops_implementation();
  kernel.bind = [n = rows.shape[0], c = rows.shape[1],
                 threads = context.threads](Operands o) -> Call {
    return [=, x = as<float>(o.inputs[0]), y = as<float>(o.outputs[0])](const Step&) {
      parallel_for(useful_threads(threads, n * c), n,
                   [&](int64_t r) { loops().softmax(x + r * c, y + r * c, c); });
    };
  };
  return kernel;
}

PreparedKernel prepare_grad(const PrepareContext& context) {
  const Layout rows = plain_f32(context.node.outputs[0].shape);
  PreparedKernel kernel{{rows, rows}, {rows}};
  kernel.implementation = loops_implementation();
  kernel.bind = [n = rows.shape[0], c = rows.shape[1],
                 threads = context.threads](Operands o) -> Call {
    return [=, dy = as<float>(o.inputs[0]), y = as<float>(o.inputs[1]),
            dx = as<float>(o.outputs[0])](const Step&) {
      parallel_for(useful_threads(threads, n * c), n,
                   [&](int64_t r) { loops().softmax_grad(dy + r * c, y + r * c, dx + r * c, c); });
    };
  };
  return kernel;
}

const RegisterKernel kForward{"cpu", "softmax", prepare};
const RegisterKernel kBackward{"cpu", "softmax_grad", prepare_grad};

}  // namespace
}  // namespace crossbow
