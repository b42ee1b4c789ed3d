// Layers: ops together with the parameters that they own. Names of parameters are those of
// PyTorch: "<layer>.weight", "<layer>.bias"; batch norm adds "running_mean" and "running_var".
#pragma once

#include "graph/source.h"
#include "ops/batch_norm.h"
#include "ops/conv2d.h"
#include "ops/pool.h"

namespace crossbow {

struct Conv2d {
  int64_t filters;
  Size2 kernel = 3, stride = 1;
  Padding padding = 0;
  Size2 dilation = 1;
  int64_t groups = 1;
  bool bias = true;
  Initialiser weight_init = Initialiser::xavier();
  Initialiser bias_init = Initialiser::constant(0);
};
Tensor conv2d(Tensor x, const Conv2d& layer, std::string name = {});

struct Dense {
  int64_t outputs;
  bool bias = true;
  Initialiser weight_init = Initialiser::xavier();
  Initialiser bias_init = Initialiser::constant(0);
};
/// Reads [N, C, H, W] as [N, C·H·W]; x may be sparse rows (ops/sparse_rows.h).
Tensor dense(Tensor x, const Dense& layer, std::string name = {});

struct BatchNorm {
  float epsilon = 1e-5f;
  float momentum = 0.9f;  // fraction kept
};
Tensor batch_norm(Tensor x, const BatchNorm& layer = {}, std::string name = {});

/// A stride of 0 means that of the kernel.
Tensor max_pool(Tensor x, Size2 kernel, Size2 stride = 0, Padding padding = 0);
Tensor avg_pool(Tensor x, Size2 kernel, Size2 stride = 0, Padding padding = 0);

}  // namespace crossbow
