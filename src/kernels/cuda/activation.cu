#include "ops/activation.h"

#include "kernels/cuda/activate.h"
#include "kernels/cuda/prepare.h"

namespace crossbow::CROSSBOW_GRID {
namespace {

template <typename T>
struct Activate {
  Activation activation;
  const T* x;
  T* y;

  CROSSBOW_GPU void operator()(int64_t i) const { y[i] = activate(activation, x[i]); }
};

template <typename T>
struct ActivateGrad {
  Activation activation;
  const T *dy, *y;
  T* dx;

  CROSSBOW_GPU void operator()(int64_t i) const { dx[i] = dy[i] * derivative(activation, y[i]); }
};

PreparedKernel prepare(const PrepareContext& context) {
  const Layout x = input_layout(context, 0);
  const Activation activation = context.node.attrs<ActivationAttributes>().activation;
  return elementwise({x}, {x}, x, [=](auto t, const Operands& o) {
    using T = decltype(t);
    return Activate<T>{activation, as<T>(o.inputs[0]), as<T>(o.outputs[0])};
  });
}

PreparedKernel prepare_grad(const PrepareContext& context) {
  const Layout x = input_layout(context, 0);
  const Activation activation = context.node.attrs<ActivationAttributes>().activation;
  return elementwise({x, x}, {x}, x, [=](auto t, const Operands& o) {
    using T = decltype(t);
    return ActivateGrad<T>{activation, as<T>(o.inputs[0]), as<T>(o.inputs[1]), as<T>(o.outputs[0])};
  });
}

const RegisterKernel kRelu{kDevice, "relu", prepare};
const RegisterKernel kRelu6{kDevice, "relu6", prepare};
const RegisterKernel kSigmoid{kDevice, "sigmoid", prepare};
const RegisterKernel kTanh{kDevice, "tanh", prepare};
const RegisterKernel kGrad{kDevice, "activation_grad", prepare_grad};

}  // namespace
}  // namespace crossbow::CROSSBOW_GRID
