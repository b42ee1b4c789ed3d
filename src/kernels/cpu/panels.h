// How channel-wise kernels cut an activation into panels (loops.h) and panels into slices, one for
// each thread where there are fewer panels than threads.
#pragma once

#include <array>
#include <bit>

#include "core/dtype.h"
#include "device/layout.h"
#include "kernels/cpu/loops.h"
#include "kernels/cpu/team.h"

namespace crossbow {

inline float to_float(float x) {
  return x;
}
inline float to_float(Bf16 x) {
  return std::bit_cast<float>(static_cast<uint32_t>(x) << 16);
}

/// One value for each lane of a panel; written by channel, then repeated by Panels::repeat.
using LaneValues = std::array<float, kMaxLanes>;

/// Immutable. A panel holds up to kMaxLanes channels; where a channel block is narrower than
/// kPeriod, as in plain NCHW or nChw8c, its channels repeat along the lanes.
class Panels {
 public:
  Panels(const ChannelView& view, int threads);

  struct Extent {
    int64_t offset;         // of the first element; channel c's first one is c elements on
    int64_t first_channel;  // that the panel holds
    int64_t channels;       // that exist; lanes of others are padding
    int64_t lanes;
  };
  Extent extent(int64_t panel) const;
  int64_t values_per_channel() const { return values_per_channel_; }
  /// Copies the values of the panel's channels to the lanes where they repeat.
  void repeat(LaneValues& values) const;

  /// Calls f(const Panel&, offset) for what makes up a slice of a panel.
  template <typename F>
  void for_parts(int64_t panel, int64_t slice, const F& f) const;

  /// Two sums a lane for each slice of each panel, in scratch memory.
  size_t scratch_bytes() const { return count_ * slices_ * 2 * kMaxLanes * sizeof(double); }
  double* slice_sums(void* scratch, int64_t panel, int64_t slice) const;
  struct ChannelSums {
    std::array<double, kMaxLanes> first{}, second{};
  };
  /// Those of a panel's channels, added up in a fixed order.
  ChannelSums channel_sums(const void* scratch, int64_t panel) const;

  /// Runs reduce(panel, slice), then apply(panel, slice) once all slices of the panel are reduced.
  template <typename Reduce, typename Apply>
  void two_passes(const Reduce& reduce, const Apply& apply) const;
  template <typename F>
  void one_pass(const F& f) const {
    parallel_for(threads_, count_ * slices_,
                 [&](int64_t i) { slices_ == 1 ? f(i, 0) : f(i / slices_, i % slices_); });
  }

 private:
  static constexpr int64_t kPeriod = 32;
  bool repeats() const { return kPeriod % block_ == 0; }

  Panel whole_{};        // the first panel
  int64_t tail_ = 0;     // lanes behind its last whole row
  int64_t columns_ = 1;  // panels in a channel block
  int64_t count_ = 0, slices_ = 1;
  int64_t block_, block_stride_, channels_, values_per_channel_;
  int threads_;
};

template <typename F>
void Panels::for_parts(int64_t panel, int64_t slice, const F& f) const {
  const Extent at = extent(panel);
  Panel part = whole_;
  part.lanes = at.lanes;
  const bool by_batch = part.batch >= slices_;
  int64_t& divided = by_batch ? part.batch : part.rows;
  const int64_t begin = divided * slice / slices_, end = divided * (slice + 1) / slices_;
  const int64_t start = at.offset + begin * (by_batch ? part.batch_stride : part.row_stride);
  divided = end - begin;
  f(part, start);
  if (tail_ == 0 || (!by_batch && slice + 1 < slices_)) return;
  f(Panel{part.batch, part.batch_stride, 1, 0, tail_}, start + part.rows * part.row_stride);
}

template <typename Reduce, typename Apply>
void Panels::two_passes(const Reduce& reduce, const Apply& apply) const {
  if (slices_ > 1) {
    one_pass(reduce);
    one_pass(apply);
    return;
  }
  // One panel after the other, so that the second pass finds it in the cache.
  one_pass([&](int64_t panel, int64_t slice) {
    reduce(panel, slice);
    apply(panel, slice);
  });
}

}  // namespace crossbow
