#include "kernels/cpu/panels.h"

#include <algorithm>

namespace crossbow {

Panels::Panels(const ChannelView& view, int threads)
    : block_(view.block),
      channels_(view.channels),
      values_per_channel_(view.batch * view.positions),
      threads_(useful_threads(threads, view.elements())) {
  int64_t batch = view.batch, positions = view.positions;
  if (view.blocks == 1) {  // images follow each other without a gap
    positions *= batch;
    batch = 1;
  }
  block_stride_ = positions * block_;
  const int64_t batch_stride = view.blocks * block_stride_;
  if (repeats()) {
    whole_ = {batch, batch_stride, block_stride_ / kPeriod, kPeriod, kPeriod};
    tail_ = block_stride_ % kPeriod;
  } else {
    columns_ = (block_ + kMaxLanes - 1) / kMaxLanes;
    whole_ = {batch, batch_stride, positions, block_, std::min(block_, kMaxLanes)};
  }
  count_ = view.blocks * columns_;
  // Uneven shares cost less than passing twice over memory once there are many panels.
  if (count_ % threads_ != 0 && count_ < 4 * threads_) slices_ = threads_;
}

Panels::Extent Panels::extent(int64_t panel) const {
  int64_t block = panel, column = 0;
  if (columns_ > 1) {  // divisions would take longer than some panels
    block = panel / columns_;
    column = panel % columns_ * kMaxLanes;
  }
  const int64_t first = block * block_ + column;
  const int64_t wide = std::min(kMaxLanes, block_ - column);
  return {block * block_stride_ + column, first, std::min(wide, channels_ - first),
          repeats() ? kPeriod : wide};
}

void Panels::repeat(LaneValues& values) const {
  if (!repeats()) return;
  for (int64_t l = block_; l < kPeriod; l += block_) {
    std::copy_n(values.begin(), block_, values.begin() + l);
  }
}

double* Panels::slice_sums(void* scratch, int64_t panel, int64_t slice) const {
  return static_cast<double*>(scratch) + (panel * slices_ + slice) * 2 * kMaxLanes;
}

Panels::ChannelSums Panels::channel_sums(const void* scratch, int64_t panel) const {
  ChannelSums result;
  const int64_t lanes = whole_.lanes, period = std::min(block_, lanes);
  const double* sums = static_cast<const double*>(scratch) + panel * slices_ * 2 * kMaxLanes;
  for (int64_t slice = 0; slice < slices_; ++slice, sums += 2 * kMaxLanes) {
    for (int64_t begin = 0; begin < lanes; begin += period) {
      for (int64_t c = 0; c < period; ++c) {
        result.first[c] += sums[begin + c];
        result.second[c] += sums[kMaxLanes + begin + c];
      }
    }
  }
  return result;
}

}  // namespace crossbow
