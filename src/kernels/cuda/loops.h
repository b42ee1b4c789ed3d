// The forms that our kernels have: a function of each element, and sums over all elements, which
// are added up in an order that the sizes alone decide. channels.h has the sums of each channel.
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

/// f(i) for i from 0 to n − 1. Few threads have more than one.
template <typename F>
struct ForEach {
  F f;
  int64_t n;

  CROSSBOW_GPU void operator()(const Thread& t) const {
    const int64_t stride = t.blocks() * t.threads();
    CROSSBOW_ROLLED
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
    CROSSBOW_ROLLED
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

}  // namespace crossbow::CROSSBOW_GRID
