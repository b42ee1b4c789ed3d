#include "kernels/ref/ref.h"

namespace crossbow::ref {
namespace {

template <typename T>
void activation(const Run& run) {
  const T* x = run.in<T>(0);
  T* y = run.out<T>();
  const Activation kind = run.attrs<ActivationAttributes>().activation;
  for (int64_t i = 0; i < run.out_shape().elements(); ++i) y[i] = activate(kind, x[i]);
}

template <typename T>
void activation_grad(const Run& run) {
  const T* dy = run.in<T>(0);
  const T* y = run.in<T>(1);
  T* dx = run.out<T>();
  const Activation kind = run.attrs<ActivationAttributes>().activation;
  for (int64_t i = 0; i < run.out_shape().elements(); ++i) dx[i] = dy[i] * derivative(kind, y[i]);
}

const RegisterKernel kRelu{"ref", "relu", prepare<activation<float>, activation<double>>};
const RegisterKernel kRelu6{"ref", "relu6", prepare<activation<float>, activation<double>>};
const RegisterKernel kSigmoid{"ref", "sigmoid", prepare<activation<float>, activation<double>>};
const RegisterKernel kTanh{"ref", "tanh", prepare<activation<float>, activation<double>>};
const RegisterKernel kGrad{"ref", "activation_grad",
                           prepare<activation_grad<float>, activation_grad<double>>};

}  // namespace
}  // namespace crossbow::ref
