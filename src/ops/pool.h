// The ops "max_pool" and "avg_pool" (a global average is an avg_pool over the whole map).
#pragma once

#include "graph/graph.h"

namespace crossbow {

struct PoolAttributes : Attributes {
  int64_t kernel_h = 2, kernel_w = 2, stride = 2, padding = 0;
  /// Output size ceil((H + 2P − K) / S) + 1 instead of floor; windows that would start in the right
  /// padding are dropped (ONNX and PyTorch's rule).
  bool ceil_mode = false;
  /// Average: whether padded positions count in the divisor (those beyond the padding never do).
  bool count_include_pad = false;
};

struct PoolGradAttributes : PoolAttributes {
  Shape shape;  // of x
};

/// x [N, C, H, W] -> [N, C, OH, OW]. The second output of max_pool is device-private: the position
/// of each maximum (int32 [N, C, OH, OW]; the first one in row-major order wins) or a library's
/// workspace.
Tensor max_pool(Tensor x, const PoolAttributes& attributes, std::string name = {});
Tensor avg_pool(Tensor x, const PoolAttributes& attributes, std::string name = {});
/// [N, C, H, W] -> [N, C, 1, 1].
Tensor global_avg_pool(Tensor x, std::string name = {});

// The gradient's ops: max_pool_grad(dy, positions) -> dx and avg_pool_grad(dy) -> dx.

/// Output size of one dimension under the attributes' rule.
int64_t pooled_size(int64_t size, int64_t kernel, const PoolAttributes& attributes);

}  // namespace crossbow
