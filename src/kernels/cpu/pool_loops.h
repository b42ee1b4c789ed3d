// Pooling by loops of ours: all averages, because oneDNN divides by the whole window wherever
// padding counts, even for the part of a window that lies beyond the padding; and the maximum of
// dilated windows, for which oneDNN has only its slow reference.
#pragma once

#include "kernels/kernel.h"
#include "ops/pool.h"

namespace crossbow {

PreparedKernel prepare_average(const PrepareContext& c, const PoolAttributes& a, bool gradient);
/// Of an adaptive_avg_pool of x, or of its gradient.
PreparedKernel prepare_average_of_parts(const PrepareContext& c, const Shape& x, bool gradient);
/// Its second output is the position of each maximum in the plane of x.
PreparedKernel prepare_max_by_loops(const PrepareContext& c);
PreparedKernel prepare_max_grad_by_loops(const PrepareContext& c);

}  // namespace crossbow
