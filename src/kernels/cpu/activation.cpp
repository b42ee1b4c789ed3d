#include "ops/activation.h"

#include "kernels/cpu/elementwise.h"

namespace crossbow {
namespace {

template <typename T>
typename TypedLoops<T>::Unary forward(Activation activation) {
  const TypedLoops<T>& l = typed_loops<T>();
  return activation == Activation::relu      ? l.relu
         : activation == Activation::sigmoid ? l.sigmoid
                                             : l.tanh;
}

template <typename T>
typename TypedLoops<T>::Binary backward(Activation activation) {
  const TypedLoops<T>& l = typed_loops<T>();
  return activation == Activation::relu      ? l.relu_grad
         : activation == Activation::sigmoid ? l.sigmoid_grad
                                             : l.tanh_grad;
}

PreparedKernel prepare(const PrepareContext& context) {
  const Activation activation = context.node.attrs<ActivationAttributes>().activation;
  Layout layout = elementwise_layout(context, {0});
  // sigmoid(0) is not 0, but padded lanes must stay 0.
  if (activation == Activation::sigmoid && layout.elements() != layout.shape.elements()) {
    layout = Layout::plain(layout.shape, layout.dtype);
  }
  return prepare_unary(context, layout, [=](auto t) { return forward<decltype(t)>(activation); });
}

PreparedKernel prepare_grad(const PrepareContext& context) {
  const Activation activation = context.node.attrs<ActivationAttributes>().activation;
  return prepare_binary(context, elementwise_layout(context, {1, 0}),
                        [=](auto t) { return backward<decltype(t)>(activation); });
}

const RegisterKernel kRelu{"cpu", "relu", prepare};
const RegisterKernel kSigmoid{"cpu", "sigmoid", prepare};
const RegisterKernel kTanh{"cpu", "tanh", prepare};
const RegisterKernel kGrad{"cpu", "activation_grad", prepare_grad};

}  // namespace
}  // namespace crossbow
