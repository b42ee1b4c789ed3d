// The forms that our kernels have: a function of each element, sums over all elements, and sums
// over the rows of each channel. Sums are added up in an order that the sizes alone decide.
#pragma once

#include "kernels/cuda/grid.h"

namespace crossbow::CROSSBOW_GRID {

/// std::min and std::max take references, and a GPU's code has no constant to refer to.
constexpr int64_t smaller(int64_t a, int64_t b) {
  return a < b ? a : b;
}

constexpr int64_t blocks_for(int64_t items, int64_t each) {
  return items > each ? (items + each - 1) / each : 1;
}

/// Of the warp's threads, for all of them; all threads of the block must come here.
CROSSBOW_GPU inline float sum_of_warp(const Thread& t, float value) {
  for (int bits = kWarp / 2; bits > 0; bits /= 2) value += t.exchange(value, bits);
  return value;
}

/// Of the block's threads, for all of them; all must come here. Uses its shared memory: a float a
/// warp.
CROSSBOW_GPU inline float sum_of_block(const Thread& t, float value) {
  float* const sums = t.shared<float>();
  value = sum_of_warp(t, value);
  if (t.rank() % kWarp == 0) sums[t.rank() / kWarp] = value;
  t.sync();
  float sum = 0;
  for (int warp = 0; warp < t.threads() / kWarp; ++warp) sum += sums[warp];
  t.sync();
  return sum;
}

constexpr size_t shared_for_sums(int threads) {
  return static_cast<size_t>(threads / kWarp) * sizeof(float);
}

/// f(i) for i from 0 to n − 1.
template <typename F>
struct ForEach {
  F f;
  int64_t n;

  CROSSBOW_GPU void operator()(const Thread& t) const {
    const int64_t stride = t.blocks() * t.threads();
    for (int64_t i = t.block() * t.threads() + t.rank(); i < n; i += stride) f(i);
  }
};

template <typename F>
void for_each(int64_t n, const F& f) {
  constexpr int64_t kMostBlocks = 1 << 16;
  launch(Grid{smaller(blocks_for(n, kThreads), kMostBlocks)}, ForEach<F>{f, n});
}

// A sum of f(i), first by block.

constexpr int64_t kSummedByThread = 16;
constexpr int64_t kMostSummingBlocks = 256;

/// Blocks that sum n elements; as many floats of scratch.
constexpr int64_t summing_blocks(int64_t n) {
  return smaller(blocks_for(n, kThreads * kSummedByThread), kMostSummingBlocks);
}

template <typename F>
struct SumByBlock {
  F f;
  int64_t n;
  float* sums;  // by block

  CROSSBOW_GPU void operator()(const Thread& t) const {
    const int64_t stride = t.blocks() * t.threads();
    float sum = 0;
    for (int64_t i = t.block() * t.threads() + t.rank(); i < n; i += stride) sum += f(i);
    sum = sum_of_block(t, sum);
    if (t.rank() == 0) sums[t.block()] = sum;
  }
};

struct SumOfBlocks {
  const float* sums;
  int64_t blocks;
  float factor;
  float* total;

  CROSSBOW_GPU void operator()(const Thread& t) const {
    float sum = 0;
    for (int64_t b = t.rank(); b < blocks; b += t.threads()) sum += sums[b];
    sum = sum_of_block(t, sum);
    if (t.rank() == 0) *total = factor * sum;
  }
};

/// total = factor · Σ f(i); `scratch` has summing_blocks(n) floats.
template <typename F>
void sum(int64_t n, const F& f, float factor, float* scratch, float* total) {
  const int64_t blocks = summing_blocks(n);
  launch(Grid{blocks, kThreads, shared_for_sums(kThreads)}, SumByBlock<F>{f, n, scratch});
  launch(Grid{1, kThreads, shared_for_sums(kThreads)}, SumOfBlocks{scratch, blocks, factor, total});
}

// Sums over the rows of a matrix [rows][channels], as activations lie in memory with their channels
// last. A block has a warp's width of neighbouring channels and a slice of the rows, of which its
// warps take every n-th.

struct Pair {
  float a = 0, b = 0;
  CROSSBOW_GPU Pair& operator+=(const Pair& other) {
    a += other.a;
    b += other.b;
    return *this;
  }
};

struct Channels {
  int64_t rows, channels;

  static constexpr int kWarps = kThreads / kWarp;
  static constexpr size_t kShared = kThreads * sizeof(Pair);
  static constexpr int64_t kRowsOfWarp = 16, kMostSlices = 64;

  constexpr int64_t columns() const { return blocks_for(channels, kWarp); }
  constexpr int64_t slices() const {
    return smaller(blocks_for(rows, kWarps * kRowsOfWarp), kMostSlices);
  }
  Grid grid() const { return {columns() * slices(), kThreads, kShared}; }
  constexpr size_t scratch_bytes() const {
    return static_cast<size_t>(slices() * channels) * sizeof(Pair);
  }

  CROSSBOW_GPU int64_t channel(const Thread& t) const {
    return t.block() % columns() * kWarp + t.rank() % kWarp;
  }
  CROSSBOW_GPU int64_t slice(const Thread& t) const { return t.block() / columns(); }
  /// Of all threads that have the channel one.
  CROSSBOW_GPU bool is_first(const Thread& t) const { return slice(t) == 0 && t.rank() < kWarp; }
  /// f(row) for the thread's rows.
  template <typename F>
  CROSSBOW_GPU void for_rows(const Thread& t, const F& f) const {
    if (channel(t) >= channels) return;
    const int64_t stride = slices() * kWarps;
    for (int64_t r = slice(t) * kWarps + t.rank() / kWarp; r < rows; r += stride) f(r);
  }
  /// Of the block's threads that have the channel; all must come here.
  CROSSBOW_GPU Pair sum_of_block(const Thread& t, const Pair& value) const {
    Pair* const all = t.shared<Pair>();
    all[t.rank()] = value;
    t.sync();
    Pair sum;
    for (int warp = 0; warp < kWarps; ++warp) sum += all[warp * kWarp + t.rank() % kWarp];
    t.sync();
    return sum;
  }
  /// Of what SumRows has left; all threads of the block must come here.
  CROSSBOW_GPU Pair total(const Thread& t, const Pair* by_slice) const {
    Pair mine;
    if (channel(t) < channels) {
      for (int64_t s = t.rank() / kWarp; s < slices(); s += kWarps) {
        mine += by_slice[s * channels + channel(t)];
      }
    }
    return sum_of_block(t, mine);
  }
};

/// by_slice[s][c] = Σ of f(row, channel) over the rows of slice s.
template <typename F>
struct SumRows {
  Channels shape;
  F f;
  Pair* by_slice;

  CROSSBOW_GPU void operator()(const Thread& t) const {
    const int64_t c = shape.channel(t);
    Pair sum;
    shape.for_rows(t, [&](int64_t row) { sum += f(row, c); });
    sum = shape.sum_of_block(t, sum);
    if (c < shape.channels && t.rank() < kWarp) by_slice[shape.slice(t) * shape.channels + c] = sum;
  }
};

template <typename F>
void sum_rows(const Channels& shape, const F& f, void* by_slice) {
  launch(shape.grid(), SumRows<F>{shape, f, static_cast<Pair*>(by_slice)});
}

}  // namespace crossbow::CROSSBOW_GRID
