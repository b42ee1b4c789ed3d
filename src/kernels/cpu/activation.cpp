#include "ops/activation.h"

#include "core/error.h"
#include "kernels/cpu/elementwise.h"

namespace crossbow {
namespace {

/// Both loops of an activation.
template <typename T>
struct ActivationLoops {
  typename TypedLoops<T>::Unary forward;
  typename TypedLoops<T>::Binary backward;
};

template <typename T>
ActivationLoops<T> loops_of(Activation activation) {
  const TypedLoops<T>& l = typed_loops<T>();
  switch (activation) {
    case Activation::none:
      break;
    case Activation::relu:
      return {l.relu, l.relu_grad};
    case Activation::relu6:
      return {l.relu6, l.relu6_grad};
    case Activation::sigmoid:
      return {l.sigmoid, l.sigmoid_grad};
    case Activation::tanh:
      return {l.tanh, l.tanh_grad};
  }
  fail("the CPU has no loops for the activation '{}'", name_of(activation));
}

PreparedKernel prepare(const PrepareContext& context) {
  const Activation activation = context.node.attrs<ActivationAttributes>().activation;
  Layout layout = elementwise_layout(context, {0});
  // sigmoid(0) is not 0, but padded lanes must stay 0.
  if (activation == Activation::sigmoid && layout.elements() != layout.shape.elements()) {
    layout = Layout::plain(layout.shape, layout.dtype);
  }
  return prepare_unary(context, layout,
                       [=](auto t) { return loops_of<decltype(t)>(activation).forward; });
}

PreparedKernel prepare_grad(const PrepareContext& context) {
  const Activation activation = context.node.attrs<ActivationAttributes>().activation;
  return prepare_binary(context, elementwise_layout(context, {1, 0}),
                        [=](auto t) { return loops_of<decltype(t)>(activation).backward; });
}

const RegisterKernel kRelu{"cpu", "relu", prepare};
const RegisterKernel kRelu6{"cpu", "relu6", prepare};
const RegisterKernel kSigmoid{"cpu", "sigmoid", prepare};
const RegisterKernel kTanh{"cpu", "tanh", prepare};
const RegisterKernel kGrad{"cpu", "activation_grad", prepare_grad};

}  // namespace
}  // namespace crossbow
