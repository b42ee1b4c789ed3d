// Kernels that look at whole rows of a matrix [rows][columns], each by a warp.
#pragma once

#include <cmath>

#include "kernels/cuda/loops.h"

namespace crossbow::CROSSBOW_GRID {

CROSSBOW_GPU inline float largest_of_warp(const Thread& t, float value) {
  for (int bits = kWarp / 2; bits > 0; bits /= 2) value = fmaxf(value, t.exchange(value, bits));
  return value;
}

struct Rows {
  int64_t count, columns;

  static constexpr int kWarps = kThreads / kWarp;
  Grid grid() const { return {blocks_for(count, kWarps)}; }

  /// f(row, whether there is such a row), as often for all threads of the block, so that f may
  /// exchange values. Without a row it is 0.
  template <typename F>
  CROSSBOW_GPU void for_each(const Thread& t, const F& f) const {
    CROSSBOW_ROLLED
    for (int64_t first = t.block() * kWarps; first < count; first += t.blocks() * kWarps) {
      const int64_t row = first + t.rank() / kWarp;
      const bool exists = row < count;
      f(exists ? row : 0, exists);
    }
  }
};

template <typename T>
struct RowOf {
  const T* data;
  int64_t columns;
  bool exists;

  /// f(column) for the thread's columns.
  template <typename F>
  CROSSBOW_GPU void for_each(const Thread& t, const F& f) const {
    if (!exists) return;
    CROSSBOW_ROLLED
    for (int64_t c = t.rank() % kWarp; c < columns; c += kWarp) f(c);
  }
};

/// Of exp(x − largest).
struct Exponentials {
  float largest, sum;
};

template <typename T>
CROSSBOW_GPU Exponentials exponentials(const Thread& t, const RowOf<T>& row) {
  float largest = -INFINITY;
  row.for_each(t, [&](int64_t c) { largest = fmaxf(largest, row.data[c]); });
  largest = largest_of_warp(t, largest);
  float sum = 0;
  row.for_each(t, [&](int64_t c) { sum += expf(row.data[c] - largest); });
  return {largest, sum_of_warp(t, sum)};
}

}  // namespace crossbow::CROSSBOW_GRID
