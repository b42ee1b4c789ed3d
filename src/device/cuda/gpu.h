// What kernels of libraries must know of the GPU that they are prepared for.
#pragma once

#include <optional>
#include <string>

#include "device/cuda/cudnn.h"
#include "device/device.h"

namespace crossbow::cuda {

/// A device whose kernels are "cuda". Thread-safe.
class Gpu {
 public:
  virtual ~Gpu() = default;
  /// By which choices are remembered: its name and its driver's version.
  virtual std::string name() const = 0;
  /// Among this machine's; none of a GPU that is only described.
  virtual std::optional<int> index() const = 0;
  virtual CudnnObject cudnn_properties() const = 0;
  /// Blocks of a kernel can run at the same time and read each other's shared memory.
  virtual bool has_clusters() const = 0;
};

/// Why this build has no kernels for GPUs whose compute capability begins so; empty if it has.
std::string why_too_old(int major);

/// Of a Gpu, for kernels (kernels/cuda/grid.h).
bool has_clusters(const Device& device);

}  // namespace crossbow::cuda
