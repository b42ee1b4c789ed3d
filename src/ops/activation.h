// Element-wise activations: the ops "relu", "relu6", "sigmoid" and "tanh", and
// "activation_grad".
#pragma once

#include <string_view>

#include "graph/graph.h"

namespace crossbow {

enum class Activation { none, relu, relu6, sigmoid, tanh };
std::string_view name_of(Activation a);

/// Of all five ops; the four forward ones carry their own activation.
struct ActivationAttributes : Attributes {
  Activation activation = Activation::none;
};

Tensor relu(Tensor x, std::string name = {});
/// min(max(x, 0), 6).
Tensor relu6(Tensor x, std::string name = {});
Tensor sigmoid(Tensor x, std::string name = {});
Tensor tanh(Tensor x, std::string name = {});
/// dx from dy and the activation's *output* y, from which all derivatives follow:
/// relu y > 0, relu6 0 < y < 6, sigmoid y(1 − y), tanh 1 − y².
Tensor activation_grad(Tensor dy, Tensor y, Activation activation);

}  // namespace crossbow
