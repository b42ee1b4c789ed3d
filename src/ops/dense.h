// Fully connected layer.
#pragma once

#include "graph/graph.h"
#include "ops/activation.h"

namespace crossbow {

struct DenseAttributes : Attributes {
  Activation activation = Activation::none;  // applied to the result; set by fusion
};

/// x [N, C] (or [N, C, H, W], read as [N, C·H·W]), weights [O, C·H·W], optional bias [O]
/// -> [N, O] = activation(x · weightsᵀ + bias).
Tensor dense(Tensor x, Tensor weights, Tensor bias, std::string name = {});

// The gradient's ops: dense_grad_input(dy, weights) -> dx, and
// dense_grad_weights(x, dy) -> dw and, with a bias, db as second output. With a fused activation
// dy is taken before it: activation_grad(dy, y).
struct DenseGradInputAttributes : Attributes {
  Shape shape;  // of x
};
struct DenseGradWeightsAttributes : Attributes {
  bool with_bias = false;
};

}  // namespace crossbow
