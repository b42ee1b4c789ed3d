// What is left of convolutions and dense layers when a library has computed their products.
#pragma once

#include "kernels/cuda/target.h"
#include "kernels/kernel.h"
#include "ops/activation.h"

namespace crossbow {

/// Of an output [rows][channels] of f32 or bf16.
struct BiasShape {
  DType dtype;
  int64_t rows, channels;
  Target target;
};

/// Calls for a queue.
struct BiasCalls {
  /// y[r][c] = activation(y[r][c] + bias[c]); without a bias if it is null.
  Call (*add)(const BiasShape& shape, Activation activation, void* y, const float* bias);
  /// dbias[c] = Σ dy[r][c].
  Call (*sum)(const BiasShape& shape, const void* dy, float* dbias, void* scratch);
  size_t (*scratch_bytes)(const BiasShape& shape);  // of sum
};

namespace cuda {
extern const BiasCalls kBias;
}
namespace fibres {
extern const BiasCalls kBias;
}

}  // namespace crossbow
