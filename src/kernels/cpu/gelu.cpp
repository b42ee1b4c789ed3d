#include "ops/gelu.h"

#include "core/error.h"
#include "kernels/cpu/elementwise.h"

namespace crossbow {
namespace {

/// Both loops of an approximation.
template <typename T>
struct GeluLoops {
  typename TypedLoops<T>::Unary forward;
  typename TypedLoops<T>::Binary backward;
};

template <typename T>
GeluLoops<T> loops_of(const Node& node) {
  const TypedLoops<T>& l = typed_loops<T>();
  switch (node.attrs<GeluAttributes>().approximate) {
    case GeluApproximation::none:
      return {l.gelu, l.gelu_grad};
    case GeluApproximation::tanh:
      return {l.gelu_tanh, l.gelu_tanh_grad};
  }
  fail("layer {}: the CPU lacks this approximation of gelu", node.name);
}

PreparedKernel prepare(const PrepareContext& context) {
  return prepare_unary(context, elementwise_layout(context, {0}), [node = context.node](auto t) {
    return loops_of<decltype(t)>(node).forward;
  });
}

PreparedKernel prepare_grad(const PrepareContext& context) {
  return prepare_binary(
      context, elementwise_layout(context, {1, 0}),
      [node = context.node](auto t) { return loops_of<decltype(t)>(node).backward; });
}

const RegisterKernel kForward{"cpu", "gelu", prepare};
const RegisterKernel kGrad{"cpu", "gelu_grad", prepare_grad};

}  // namespace
}  // namespace crossbow
