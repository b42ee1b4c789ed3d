#include "kernels/cpu/elementwise.h"

#include "ops/elementwise.h"

namespace crossbow {
namespace {

PreparedKernel prepare_add(const PrepareContext& context) {
  const bool relu = context.node.attrs<AddAttributes>().relu;
  return prepare_binary(context, elementwise_layout(context, {0, 1}), [=](auto t) {
    const auto& l = typed_loops<decltype(t)>();
    return relu ? l.add_relu : l.add;
  });
}

PreparedKernel prepare_multiply(const PrepareContext& context) {
  return prepare_binary(context, elementwise_layout(context, {0, 1}),
                        [](auto t) { return typed_loops<decltype(t)>().multiply; });
}

const RegisterKernel kAdd{"cpu", "add", prepare_add};
const RegisterKernel kMultiply{"cpu", "multiply", prepare_multiply};

}  // namespace
}  // namespace crossbow
