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
  int64_t kernel = 3;
  int64_t stride = 1, padding = 0, dilation = 1, groups = 1;
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
/// Reads [N, C, H, W] as [N, C·H·W].
Tensor dense(Tensor x, const Dense& layer, std::string name = {});

struct BatchNorm {
  float epsilon = 1e-5f;
  float momentum = 0.9f;  // fraction kept
};
Tensor batch_norm(Tensor x, const BatchNorm& layer = {}, std::string name = {});

/// kernel × kernel windows; stride 0 means equal to the kernel.
Tensor max_pool(Tensor x, int64_t kernel, int64_t stride = 0, int64_t padding = 0);
Tensor avg_pool(Tensor x, int64_t kernel, int64_t stride = 0, int64_t padding = 0);

}  // namespace crossbow
