// Dense layers of few rows by kernels of ours, each with all that belongs to the layer: libraries
// are made for larger matrices, and take two or three kernels.
#pragma once

#include "kernels/kernel.h"
#include "ops/activation.h"

namespace crossbow {

/// x [rows][inputs], weights [outputs][inputs], y [rows][outputs].
struct FewRowsShape {
  DType dtype;  // of these, f32 or bf16; biases are of f32
  int64_t rows, inputs, outputs;
};

/// Calls for a queue. Sums are added up in an order that the shape decides.
struct FewRowsCalls {
  bool (*is_made_for)(const FewRowsShape& shape);
  /// y = activation(x · weightsᵀ + bias), without a bias if it is null.
  Call (*forward)(const FewRowsShape& shape, Activation activation, const void* x,
                  const void* weights, const float* bias, void* y);
  /// dx = dy · weights.
  Call (*grad_input)(const FewRowsShape& shape, const void* dy, const void* weights, void* dx);
  /// dweights = dyᵀ · x, and dbias = Σ dy[row] unless it is null.
  Call (*grad_weights)(const FewRowsShape& shape, const void* x, const void* dy, void* dweights,
                       float* dbias);
};

namespace cuda {
extern const FewRowsCalls kFewRows;
}
namespace fibres {
extern const FewRowsCalls kFewRows;
}

}  // namespace crossbow
