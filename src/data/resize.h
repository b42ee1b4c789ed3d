// Scaling pictures by weighted sums of pixels.
#pragma once

#include <cstdint>
#include <vector>

#include "data/image.h"

namespace crossbow::data {

/// How much each position of an axis counts in each of the new positions.
class Taps {
 public:
  /// The window [begin, begin + length) of `in` positions is scaled to `out`: by a triangle as wide
  /// as two new pixels, or two old ones where the picture grows (bilinear, antialiased). Positions
  /// around the window count where the triangle reaches them.
  void set(int64_t in, double begin, double length, int64_t out);

  int64_t size() const { return static_cast<int64_t>(first_.size()); }
  /// Of each new position there are so many old ones, from `first` on, in fixed point: their
  /// weights add up to about 1 << kBits. Behind an odd number of them is a 0.
  int64_t count() const { return count_; }
  int64_t first(int64_t i) const { return first_[static_cast<size_t>(i)]; }
  const int16_t* weights(int64_t i) const { return weights_.data() + i * (count_ + count_ % 2); }

  static constexpr int kBits = 14;

 private:
  int64_t count_ = 0;
  std::vector<int64_t> first_;
  std::vector<int16_t> weights_;
  std::vector<double> shares_;
};

/// Scales pictures; keeps its memory. One thread at a time.
class Resizer {
 public:
  /// The window of the picture becomes 3 × height × width bytes, the channels one after the other:
  /// first down, then across, each rounded.
  void resize(const PixelView& image, const Taps& down, const Taps& across, uint8_t* chw);

 private:
  std::vector<uint8_t> rows_;  // one at a time
};

}  // namespace crossbow::data
