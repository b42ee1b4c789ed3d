// Dense layers whose weights lie as oneDNN wants them. Its forward pass adds up to 1,024 products
// one after the other, which has twice the error of sums in parts. For the gradient of the input it
// transposes the weights at each call, which costs more than the product itself at small batches.
// The gradient of the weights is in registers when it is done, so the optimizer's step follows
// there: at small batches a pass over memory of its own takes as long as the product.
#include "kernels/cpu/simd/sgd.h"
#include "kernels/cpu/simd/tables.h"

namespace crossbow::simd::CROSSBOW_ISA {
namespace {

constexpr int64_t kBlockInputs = 16, kBlockOutputs = 64;

constexpr int64_t kPart = 256;  // inputs, whose products are added up alone

/// Of the outputs from `output` on, of which there may be too few.
inline F32 load_some(const DenseArgs& a, const float* from, int64_t output) {
  const int64_t left = a.outputs - output;
  return left >= kLanes ? load(from) : load_part(from, left > 0 ? left : 0).v[0];
}
inline void store_some(const DenseArgs& a, float* to, int64_t output, F32 value) {
  const int64_t left = a.outputs - output;
  if (left >= kLanes) return store(to, value);
  if (left > 0) store_part(to, {value, F32{}}, left);
}

/// kRows rows of y, kVectors · kLanes columns: the sums over the part's inputs stay in registers.
/// kWhole: the layer has as many outputs.
template <int kRows, int kVectors, bool kWhole>
inline void part_of_tile(const DenseArgs& a, const float* w, int64_t output, int64_t row,
                         int64_t begin, int64_t end) {
  F32 sums[kRows][kVectors] = {};
  const float* const x = a.x + row * a.inputs;
  for (int64_t i = begin; i < end; ++i) {
    F32 weights[kVectors];
    for (int v = 0; v < kVectors; ++v) weights[v] = load(w + i * kBlockOutputs + v * kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const F32 value = broadcast(x[r * a.inputs + i]);
      for (int v = 0; v < kVectors; ++v) sums[r][v] += value * weights[v];
    }
  }
  const bool is_first = begin == 0, is_last = end == a.inputs;
  const F32 least = broadcast(a.least), most = broadcast(a.most);
  for (int v = 0; v < kVectors; ++v) {
    const int64_t o = output + v * kLanes;
    const auto loaded = [&](const float* p) { return kWhole ? load(p) : load_some(a, p, o); };
    const F32 bias = is_first && a.bias ? loaded(a.bias + o) : F32{};
    for (int r = 0; r < kRows; ++r) {
      float* const y = a.y + (row + r) * a.outputs + o;
      F32 total = sums[r][v] + (is_first ? bias : loaded(y));
      if (is_last) {
        total = max(least, total);
        total = total > most ? most : total;
      }
      kWhole ? store(y, total) : store_some(a, y, o, total);
    }
  }
}

template <int kRows>
void part_of_rows(const DenseArgs& a, const float* w, int64_t first, int64_t row, int64_t begin,
                  int64_t end) {
  constexpr int kVectors = kLanes == 16 ? 4 : 2;  // with six rows as many sums as registers allow
  const bool is_whole = first + kBlockOutputs <= a.outputs;
  for (int64_t o = 0; o < kBlockOutputs; o += kVectors * kLanes) {
    const auto run =
        is_whole ? part_of_tile<kRows, kVectors, true> : part_of_tile<kRows, kVectors, false>;
    run(a, w + o, first + o, row, begin, end);
  }
}

void dense(const DenseArgs& a, const float* w, int64_t first, int64_t begin, int64_t end) {
  constexpr decltype(&part_of_rows<1>) kRest[] = {
      nullptr, part_of_rows<1>, part_of_rows<2>, part_of_rows<3>, part_of_rows<4>, part_of_rows<5>};
  for (int64_t part = 0; part < a.inputs; part += kPart) {
    const int64_t part_end = part + kPart < a.inputs ? part + kPart : a.inputs;
    int64_t row = begin;
    for (; row + 6 <= end; row += 6) part_of_rows<6>(a, w, first, row, part, part_end);
    if (row < end) kRest[end - row](a, w, first, row, part, part_end);
  }
}

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

/// Rows in one piece: what lies a power of two apart would share few places of the nearest cache.
template <int kColumns>
inline void pack(const float* from, int64_t rows, int64_t stride, float* to) {
  for (int64_t row = 0; row < rows; ++row, from += stride, to += kColumns) {
    for (int c = 0; c < kColumns; c += kLanes) store(to + c, load(from + c));
  }
}

/// Calls use(at, vector) with all vectors of the gradient, block by block.
template <typename F>
inline void gradient_of_blocks(const DenseGradArgs& a, F use) {
  constexpr int kInputs = 4, kVectors = kLanes == 16 ? 4 : 2;
  alignas(64) float dy[kMostGradRows * kBlockOutputs], x[kMostGradRows * kBlockInputs];
  pack<kBlockOutputs>(a.dy, a.rows, a.outputs, dy);
  for (int64_t block = 0; block < a.blocks; ++block) {
    pack<kBlockInputs>(a.x + block * kBlockInputs, a.rows, a.inputs, x);
    for (int64_t first = 0; first < kBlockInputs; first += kInputs) {
      for (int64_t lane = 0; lane < kBlockOutputs; lane += kVectors * kLanes) {
        F32 sums[kInputs][kVectors] = {};
        for (int64_t row = 0; row < a.rows; ++row) {
          F32 d[kVectors];
          for (int v = 0; v < kVectors; ++v)
            d[v] = load(dy + row * kBlockOutputs + lane + v * kLanes);
#pragma GCC unroll 8
          for (int i = 0; i < kInputs; ++i) {
            const F32 value = broadcast(x[row * kBlockInputs + first + i]);
            for (int v = 0; v < kVectors; ++v) sums[i][v] += value * d[v];
          }
        }
        const int64_t at = (block * kBlockInputs + first) * kBlockOutputs + lane;
#pragma GCC unroll 8
        for (int i = 0; i < kInputs; ++i) {
#pragma GCC unroll 8
          for (int v = 0; v < kVectors; ++v) use(at + i * kBlockOutputs + v * kLanes, sums[i][v]);
        }
      }
    }
  }
}

void dense_grad_weights(const DenseGradArgs& a, float* dw) {
  gradient_of_blocks(a, [=](int64_t at, F32 gradient) { store(dw + at, gradient); });
}

void dense_sgd_step(const DenseGradArgs& a, const SgdArgs& args, const SgdArrays& arrays,
                    int64_t begin) {
  gradient_of_blocks(a, [=](int64_t at, F32 gradient) {
    const int64_t i = begin + at;
    const F32 weight = load(arrays.weights + i);
    F32 velocity = arrays.velocity ? load(arrays.velocity + i) : F32{};
    const F32 central = arrays.central ? load(arrays.central + i) : weight;
    store(arrays.next + i, sgd_next(args, weight, gradient, velocity, central));
    if (arrays.velocity) store(arrays.velocity + i, velocity);
  });
}

void dense_hogwild_step(const DenseGradArgs& a, const SgdArgs& args, const HogwildArrays& arrays,
                        int64_t begin) {
  constexpr int64_t kLine = 16, kAhead = 2048;  // docs/asynchronous.md
  const int64_t end = a.blocks * kBlockInputs * kBlockOutputs;
  gradient_of_blocks(a, [=](int64_t at, F32 gradient) {
    const int64_t i = begin + at;
    if (at % kLine == 0 && at + kAhead < end) expect_to_write(arrays.shared + i + kAhead);
    hogwild_vector(args, arrays, i, gradient);
  });
}

void column_sums(const float* dy, int64_t rows, int64_t outputs, float* db) {
  for (int64_t o = 0; o < outputs; ++o) db[o] = 0;
  for (int64_t r = 0; r < rows; ++r, dy += outputs) {
    for (int64_t o = 0; o < outputs; ++o) db[o] += dy[o];
  }
}

}  // namespace

void add_dense(Loops& loops) {
  loops.dense = dense;
  loops.dense_grad_input = dense_grad_input;
  loops.dense_grad_weights = dense_grad_weights;
  loops.dense_sgd_step = dense_sgd_step;
  loops.dense_hogwild_step = dense_hogwild_step;
  loops.column_sums = column_sums;
}

}  // namespace crossbow::simd::CROSSBOW_ISA
