// The limit of a whole gradient's norm.
#pragma once

#include "device/device.h"
#include "device/vector_math.h"

namespace crossbow {

/// Its numbers lie in the device's memory, so finding the scale is a queue's work. One queue at a
/// time.
class GradientClip {
 public:
  /// Without a limit.
  GradientClip() = default;
  /// 0: no limit.
  GradientClip(Device& device, double limit) : limit_(limit) {
    if (limit > 0) numbers_ = device.allocate(2 * sizeof(double));
  }

  /// Of n elements; by the vector math of the queue whose work it is.
  void find_scale(const VectorMath& math, const void* gradient, int64_t n) const {
    if (!numbers_.data()) return;
    math.squared_norm(gradient, n, numbers_.as<double>());
    math.find_clip_scale(limit_, numbers_.as<double>(), 1, numbers_.as<double>() + 1);
  }
  /// As of UpdateSpans::gradient_scale.
  const double* scale() const { return numbers_.data() ? numbers_.as<double>() + 1 : nullptr; }

 private:
  double limit_ = 0;
  Buffer numbers_;  // the squared norm, and the scale that follows
};

}  // namespace crossbow
