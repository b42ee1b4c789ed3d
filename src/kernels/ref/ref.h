// The reference device: plain loops over row-major arrays on one thread, in float or double. It is
// the definition that the other devices are tested against, so it is written to be read. On it
// everything of TensorType f32, losses and statistics included, is stored at the program's
// precision.
#pragma once

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "kernels/kernel.h"
#include "ops/activation.h"

namespace crossbow::ref {

/// What a kernel sees of one run of its node.
struct Run {
  const Node& node;
  const std::vector<TensorType>& inputs;
  const Operands& operands;
  const Step& step;

  template <typename Attributes>
  const Attributes& attrs() const {
    return node.attrs<Attributes>();
  }
  const Shape& in_shape(size_t i) const { return inputs[i].shape; }
  const Shape& out_shape(size_t i = 0) const { return node.outputs[i].shape; }
  /// Null if the input is absent.
  template <typename T>
  const T* in(size_t i) const {
    return i < operands.inputs.size() ? static_cast<const T*>(operands.inputs[i]) : nullptr;
  }
  template <typename T>
  T* out(size_t i = 0) const {
    return static_cast<T*>(operands.outputs[i]);
  }
  /// An input that is changed as a side effect.
  template <typename T>
  T* state(size_t i) const {
    return static_cast<T*>(operands.inputs[i]);
  }
};

using Kernel = void (*)(const Run&);

/// `const RegisterKernel k{"ref", "relu", prepare<relu<float>, relu<double>>};`
template <Kernel f32, Kernel f64>
PreparedKernel prepare(const PrepareContext& context) {
  if (context.precision != DType::f32 && context.precision != DType::f64) {
    fail("the reference device computes in f32 or f64, not in {}", name_of(context.precision));
  }
  const auto plain = [&](const TensorType& type) {
    return Layout::plain(type.shape, type.dtype == DType::f32 ? context.precision : type.dtype);
  };
  PreparedKernel prepared;
  const std::vector<TensorType> inputs = context.graph.input_types(context.node);
  for (const TensorType& type : inputs) prepared.inputs.push_back(plain(type));
  for (const TensorType& type : context.node.outputs) prepared.outputs.push_back(plain(type));
  prepared.implementation = "loops";
  const Kernel kernel = context.precision == DType::f64 ? f64 : f32;
  prepared.bind = [kernel, node = context.node, inputs](Operands operands) -> Call {
    return [kernel, node, inputs, operands = std::move(operands)](const Step& step) {
      kernel({node, inputs, operands, step});
    };
  };
  return prepared;
}

template <typename T>
T activate(Activation activation, T x) {
  switch (activation) {
    case Activation::none:
      return x;
    case Activation::relu:
      return std::max(x, T{0});
    case Activation::relu6:
      return std::min(std::max(x, T{0}), T{6});
    case Activation::sigmoid:
      return 1 / (1 + std::exp(-x));
    case Activation::tanh:
      return std::tanh(x);
  }
  fail("the reference device has no activation '{}'", name_of(activation));
}

/// The derivative at the point whose activation is y.
template <typename T>
T derivative(Activation activation, T y) {
  switch (activation) {
    case Activation::none:
      return 1;
    case Activation::relu:
      return y > 0 ? 1 : 0;
    case Activation::relu6:
      return y > 0 && y < 6 ? 1 : 0;
    case Activation::sigmoid:
      return y * (1 - y);
    case Activation::tanh:
      return 1 - y * y;
  }
  fail("the reference device has no derivative of the activation '{}'", name_of(activation));
}

}  // namespace crossbow::ref
