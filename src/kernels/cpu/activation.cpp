#include "kernels/cpu/activation.h"

#include "kernels/cpu/elementwise.h"

namespace crossbow {
namespace {

PreparedKernel prepare(const PrepareContext& context) {
  const Activation activation = context.node.attrs<ActivationAttributes>().activation;
  Layout layout = elementwise_layout(context, {0});
  // sigmoid(0) is not 0, but padded lanes must stay 0.
  if (activation == Activation::sigmoid && layout.elements() != layout.shape.elements()) {
    layout = Layout::plain(layout.shape, layout.dtype);
  }
  return prepare_unary(context, layout,
                       [=](auto t) { return activation_loops<decltype(t)>(activation).forward; });
}

PreparedKernel prepare_grad(const PrepareContext& context) {
  const Activation activation = context.node.attrs<ActivationAttributes>().activation;
  return prepare_binary(context, elementwise_layout(context, {1, 0}),
                        [=](auto t) { return activation_loops<decltype(t)>(activation).backward; });
}

const RegisterKernel kRelu{"cpu", "relu", prepare};
const RegisterKernel kRelu6{"cpu", "relu6", prepare};
const RegisterKernel kSigmoid{"cpu", "sigmoid", prepare};
const RegisterKernel kTanh{"cpu", "tanh", prepare};
const RegisterKernel kGrad{"cpu", "activation_grad", prepare_grad};

}  // namespace
}  // namespace crossbow
