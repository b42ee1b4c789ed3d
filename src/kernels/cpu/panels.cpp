#include "kernels/cpu/panels.h"

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
  if (kPeriod % block_ == 0) {
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

int64_t Panels::first_channel(int64_t panel) const {
  return panel / columns_ * block_ + panel % columns_ * kMaxLanes;
}

int64_t Panels::channels(int64_t panel) const {
  const int64_t of_block = std::min(kMaxLanes, block_ - panel % columns_ * kMaxLanes);
  return std::min(of_block, channels_ - first_channel(panel));
}

int64_t Panels::offset(int64_t panel) const {
  return panel / columns_ * block_stride_ + panel % columns_ * kMaxLanes;
}

void Panels::repeat(LaneValues& values) const {
  if (kPeriod % block_ != 0) return;
  for (int64_t l = block_; l < kPeriod; ++l) values[l] = values[l - block_];
}

double* Panels::slice_sums(void* scratch, int64_t panel, int64_t slice) const {
  return static_cast<double*>(scratch) + (panel * slices_ + slice) * 2 * kMaxLanes;
}

Panels::ChannelSums Panels::channel_sums(const void* scratch, int64_t panel) const {
  ChannelSums result;
  const double* sums = static_cast<const double*>(scratch) + panel * slices_ * 2 * kMaxLanes;
  for (int64_t slice = 0; slice < slices_; ++slice, sums += 2 * kMaxLanes) {
    for (int64_t l = 0; l < whole_.lanes; ++l) {
      const int64_t channel = kPeriod % block_ == 0 ? l % block_ : l;
      result.first[channel] += sums[l];
      result.second[channel] += sums[kMaxLanes + l];
    }
  }
  return result;
}

}  // namespace crossbow
