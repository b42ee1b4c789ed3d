// The loops of activations: for ops of their own, and for what follows a product.
#pragma once

#include "core/error.h"
#include "kernels/cpu/prepare.h"
#include "ops/activation.h"

namespace crossbow {

/// Both loops of an activation. NaN goes through them.
template <typename T>
struct ActivationLoops {
  typename TypedLoops<T>::Unary forward;
  typename TypedLoops<T>::Binary backward;
};

template <typename T>
ActivationLoops<T> activation_loops(Activation activation) {
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

}  // namespace crossbow
