// The gradient of a convolution's weights by a kernel of ours, for few channels and many pixels: of
// those cuDNN's exact plans have too few blocks for a GPU.
#pragma once

#include <optional>

#include "kernels/kernel.h"
#include "ops/window.h"

namespace crossbow {

/// Images x [images][rows][columns][channels], their convolution y by windows along both axes, and
/// weights [y's channels][window's rows][window's columns][x's channels].
struct GradWeightsShape {
  struct Images {
    int64_t rows, columns, channels;
  };
  DType dtype;  // f32 or bf16
  int64_t images;
  Images x, y;
  WindowAxes axes;
};

/// Calls for a queue.
struct GradWeightsCalls {
  /// Nothing for shapes that it is not made for.
  std::optional<size_t> (*scratch_bytes)(const GradWeightsShape& shape);
  Call (*make)(const GradWeightsShape& shape, const void* x, const void* dy, void* dweights,
               void* scratch);
};

namespace cuda {
extern const GradWeightsCalls kGradWeights;
}
namespace fibres {
extern const GradWeightsCalls kGradWeights;
}

}  // namespace crossbow
