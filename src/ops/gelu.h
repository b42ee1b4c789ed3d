// The activation "gelu", Hendrycks & Gimpel 2016.
#pragma once

#include "graph/graph.h"

namespace crossbow {

enum class GeluApproximation { none, tanh };

struct GeluAttributes : Attributes {
  GeluApproximation approximate = GeluApproximation::none;
};

/// x·Φ(x), element by element, where Φ(x) = (1 + erf(x/√2))/2 is the normal distribution. The
/// approximation by tanh has (1 + tanh(√(2/π)·(x + 0.044715·x³)))/2 for Φ. Both are PyTorch's and
/// ONNX's, under these names.
Tensor gelu(Tensor x, GeluApproximation approximate = GeluApproximation::none,
            std::string name = {});
// The gradient's op: gelu_grad(dy, x) -> dx = dy·(Φ(x) + x·Φ'(x)).

}  // namespace crossbow
