// The ops "max_pool" and "avg_pool" (a global average is an avg_pool over the whole map).
#pragma once

#include "graph/graph.h"
#include "ops/window.h"

namespace crossbow {

struct PoolAttributes : Attributes {
  Size2 kernel = 2, stride = 2;
  Padding padding = 0;
  Size2 dilation = 1;
  /// Output size ceil((top + H + bottom − dilation·(K−1) − 1) / S) + 1 instead of floor; windows
  /// that would start in the padding behind the image are dropped (ONNX and PyTorch's rule).
  bool ceil_mode = false;
  /// Average: whether padded positions count in the divisor (those beyond the padding never do).
  bool count_include_pad = false;

  WindowAxes axes() const { return window_axes(kernel, stride, dilation, padding); }
};

struct PoolGradAttributes : PoolAttributes {
  Shape shape;  // of x
};

/// x [N, C, H, W] -> [N, C, OH, OW]. Every window must read a pixel of x. The second output of
/// max_pool is device-private: the position of each maximum (int32 [N, C, OH, OW]; the first one in
/// row-major order wins) or a library's workspace.
Tensor max_pool(Tensor x, const PoolAttributes& attributes, std::string name = {});
Tensor avg_pool(Tensor x, const PoolAttributes& attributes, std::string name = {});
/// [N, C, H, W] -> [N, C, 1, 1].
Tensor global_avg_pool(Tensor x, std::string name = {});

// The gradient's ops: max_pool_grad(dy, positions) -> dx and avg_pool_grad(dy) -> dx.

/// Output size along one axis; 0 where no window fits.
int64_t pooled_size(int64_t size, const WindowAxis& axis, bool ceil_mode);

}  // namespace crossbow
