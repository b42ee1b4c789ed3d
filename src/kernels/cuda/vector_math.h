// Vector math on a GPU: given to the queue whose call the thread makes.
#pragma once

#include "device/vector_math.h"
#include "kernels/cuda/grid.h"

namespace crossbow::CROSSBOW_GRID {

/// Of f32. All spans are the device's. In a program the numbers of an update lie in the step block,
/// in the device's memory too; elsewhere they are the host's.
class GridMath : public VectorMath {
 public:
  explicit GridMath(bool steps_in_blocks) : steps_in_blocks_(steps_in_blocks) {}
  void update(const UpdateRule& rule, const UpdateStep& step, const UpdateSpans& spans,
              int64_t n) const override;
  void combine(std::span<const double> factors, std::span<const void* const> terms, void* out,
               int64_t n) const override;
  void squared_norm(const void* x, int64_t n, double* sum) const override;
  void find_clip_scale(double limit, const double* sums, int64_t count,
                       double* scale) const override;

 private:
  const bool steps_in_blocks_;
};

}  // namespace crossbow::CROSSBOW_GRID
