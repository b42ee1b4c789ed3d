// Weights for products of bf16, whose operands come as pairs of what is added up.
#include "kernels/cpu/simd/tables.h"
#include "kernels/cpu/simd/vec.h"

namespace crossbow::simd::CROSSBOW_ISA {
namespace {

constexpr int kTile = 16;

void pair_rows(const float* tile, int64_t row_stride, Bf16* to, int64_t pair_stride) {
  for (int row = 0; row < kTile; row += 2, to += pair_stride) {
    const float* from = tile + row * row_stride;
    for (int c = 0; c < kTile; c += kLanes) {
      store_pair(to + 2 * c, Pair{load(from + c), load(from + row_stride + c)});
    }
  }
}

/// Position p of all lanes moves to 2p mod (n − 1): the bits of positions rotate by one.
template <int vectors>
void shuffle(F32 (&v)[vectors]) {
  F32 from[vectors];
  __builtin_memcpy(from, v, sizeof v);
  for (int i = 0; i < vectors / 2; ++i) {
    const Pair p = join({from[i], from[i + vectors / 2]});
    v[2 * i] = p.v[0];
    v[2 * i + 1] = p.v[1];
  }
}

void pair_columns(const float* tile, int64_t row_stride, Bf16* to, int64_t pair_stride) {
  constexpr int kPairs = kTile / 2, kVectors = kTile * kPairs / kLanes;
  float rows[2][kTile];
  F32 pairs[kVectors];
  for (int row = 0; row < kTile; row += 2) {
    for (int half = 0; half < 2; ++half) {
      for (int c = 0; c < kTile; c += kLanes) {
        store(rows[half] + c, load(tile + (row + half) * row_stride + c));
      }
    }
    for (int i = 0; i < kTile; i += kLanes) {
      store_pair(reinterpret_cast<Bf16*>(&pairs[(row * kPairs + i) / kLanes]),
                 split(load_pair(rows[0] + 2 * i)));
    }
  }
  for (int i = 0; i < 4; ++i) shuffle(pairs);  // 16×8 transposed
  for (int i = 0; i < kVectors; ++i) {
    const int at = i * kLanes;
    store(reinterpret_cast<float*>(to + at / kTile * pair_stride) + at % kTile, pairs[i]);
  }
}

}  // namespace

void add_pairs(Loops& loops) {
  loops.pair_rows = pair_rows;
  loops.pair_columns = pair_columns;
}

}  // namespace crossbow::simd::CROSSBOW_ISA
