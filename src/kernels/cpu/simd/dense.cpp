// The gradient of a dense layer's input, read from the weights as they lie for the forward pass.
// oneDNN transposes them at each call, which costs more than the product itself at small batches.
#include "kernels/cpu/simd/tables.h"
#include "kernels/cpu/simd/vec.h"

namespace crossbow::simd::CROSSBOW_ISA {
namespace {

constexpr int64_t kBlockInputs = 16, kBlockOutputs = 64;

/// kRows rows of dx, kInputs columns: the sums stay in registers while all outputs go by.
template <int kRows, int kInputs>
inline void tile(const DenseBlocks& b, const float* w, const float* dy, float* dx) {
  F32 sums[kRows][kInputs] = {};
  for (int64_t o = 0; o < b.outputs; o += kBlockOutputs, w += b.block_stride) {
    for (int64_t lane = 0; lane < kBlockOutputs; lane += kLanes) {
      F32 d[kRows];
      for (int r = 0; r < kRows; ++r) d[r] = load(dy + r * b.outputs + o + lane);
#pragma GCC unroll 16
      for (int i = 0; i < kInputs; ++i) {
        const F32 weight = load(w + i * kBlockOutputs + lane);
        for (int r = 0; r < kRows; ++r) sums[r][i] += d[r] * weight;
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int i = 0; i < kInputs; ++i) dx[r * b.inputs + i] = sum(sums[r][i]);
  }
}

void dense_grad_input(const DenseBlocks& b, const float* w, const float* dy, float* dx) {
  constexpr int kRows = 4, kInputs = 4;
  int64_t row = 0;
  for (; row + kRows <= b.rows; row += kRows) {
    for (int64_t i = 0; i < kBlockInputs; i += kInputs) {
      tile<kRows, kInputs>(b, w + i * kBlockOutputs, dy + row * b.outputs, dx + row * b.inputs + i);
    }
  }
  for (; row < b.rows; ++row) {
    tile<1, kBlockInputs>(b, w, dy + row * b.outputs, dx + row * b.inputs);
  }
}

}  // namespace

void add_dense(Loops& loops) {
  loops.dense_grad_input = dense_grad_input;
}

}  // namespace crossbow::simd::CROSSBOW_ISA
