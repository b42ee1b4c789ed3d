#include "kernels/cuda/few_rows.h"

#include <algorithm>
#include <limits>

#include "kernels/cuda/activate.h"
#include "kernels/cuda/prepare.h"

namespace crossbow::CROSSBOW_GRID {
namespace {

constexpr int64_t kMostRows = 64;
constexpr int kRows = 16;    // that a block has
constexpr int kColumns = 4;  // of the result, that a thread has of each row
constexpr int kSums = kRows * kColumns;

/// Adds up sums[i] over the warp's threads of the same lane, which is the rank modulo `lanes`, and
/// deals the totals out: each thread is left with kSums · lanes / kWarp of them, in sums[0] and on.
/// All threads of the block must come here.
template <int lanes, int count = kSums, int bits = kWarp / 2>
CROSSBOW_GPU void add_up_warp(const Thread& t, float (&sums)[kSums]) {
  if constexpr (bits >= lanes) {
    constexpr int half = count / 2;
    const bool upper = (t.rank() & bits) != 0;
    CROSSBOW_UNROLL
    for (int i = 0; i < half; ++i) {
      const float kept = upper ? sums[half + i] : sums[i];
      const float given = upper ? sums[i] : sums[half + i];
      sums[i] = kept + t.exchange(given, bits);
    }
    add_up_warp<lanes, half, bits / 2>(t, sums);
  }
}

/// of_block[lane][i] = Σ of sums[i] of the block's threads with that rank modulo `lanes`, in shared
/// memory, for all threads. All must come here.
template <int lanes>
CROSSBOW_GPU const float* add_up_block(const Thread& t, float (&sums)[kSums]) {
  constexpr int kOfThread = kSums * lanes / kWarp;
  float* const by_warp = t.shared<float>();  // [warp][lane][i]
  float* const of_block = by_warp + t.threads() / kWarp * lanes * kSums;
  add_up_warp<lanes>(t, sums);
  const int first = t.rank() % kWarp / lanes * lanes * kSums / kWarp;
  float* const mine = by_warp + (t.rank() / kWarp * lanes + t.rank() % lanes) * kSums + first;
  CROSSBOW_UNROLL
  for (int i = 0; i < kOfThread; ++i) mine[i] = sums[i];
  t.sync();
  for (int i = t.rank(); i < lanes * kSums; i += t.threads()) {
    float sum = 0;
    for (int warp = 0; warp < t.threads() / kWarp; ++warp) sum += by_warp[warp * lanes * kSums + i];
    of_block[i] = sum;
  }
  t.sync();
  return of_block;
}

constexpr size_t shared_bytes(int threads, int lanes) {
  return static_cast<size_t>(threads / kWarp + 1) * static_cast<size_t>(lanes * kSums) *
         sizeof(float);
}

/// A block has kRows rows and kColumns outputs, and its threads deal out the inputs.
template <typename T, int width>
struct Forward {
  int rows, inputs, outputs, tiles;  // tiles: of outputs
  Activation activation;
  const T *x, *weights;
  const float* bias;
  T* y;

  Grid grid() const {
    int threads = kThreads;
    while (threads > kWarp && threads / 2 * width >= inputs) threads /= 2;
    return {int64_t{tiles} * static_cast<int>(blocks_for(rows, kRows)), threads,
            shared_bytes(threads, 1)};
  }
  CROSSBOW_GPU void operator()(const Thread& t) const {
    const int row = static_cast<int>(t.block()) / tiles * kRows;
    const int output = static_cast<int>(t.block()) % tiles * kColumns;
    float sums[kSums] = {};
    CROSSBOW_ROLLED
    for (int c = t.rank() * width; c < inputs; c += t.threads() * width) {
      Packet<T, width> w[kColumns];
      CROSSBOW_UNROLL
      for (int j = 0; j < kColumns; ++j) {
        w[j] = Packet<T, width>::at(weights + at(output + j, outputs, c));
      }
      CROSSBOW_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const auto values = Packet<T, width>::at(x + at(row + r, rows, c));
        CROSSBOW_UNROLL
        for (int j = 0; j < kColumns; ++j) {
          CROSSBOW_UNROLL
          for (int i = 0; i < width; ++i) sums[r * kColumns + j] += values[i] * w[j][i];
        }
      }
    }
    const float* const totals = add_up_block<1>(t, sums);
    for (int i = t.rank(); i < kSums; i += t.threads()) {
      const int r = row + i / kColumns, o = output + i % kColumns;
      if (r >= rows || o >= outputs) continue;
      y[int64_t{r} * outputs + o] = activate(activation, totals[i] + (bias ? bias[o] : 0));
    }
  }
  /// Of that row, or of the last one: loads need no condition.
  CROSSBOW_GPU int at(int row, int count, int column) const {
    return static_cast<int>(smaller(row, count - 1)) * inputs + column;
  }
};

/// A block has kRows rows and some packets of inputs, a lane each, and its other threads deal out
/// the outputs. Of a thread the sums of row r are from sums[r * kColumns] on.
template <typename T, int width, int lanes>
struct GradInput {
  int rows, inputs, outputs, tiles;  // tiles: of inputs
  const T *dy, *weights;
  T* dx;

  static_assert(width <= kColumns);
  static constexpr int kInputs = lanes * width, kAtOnce = kThreads / lanes;  // of a block
  static constexpr int kStaged = kRows + 4;  // of an output: neighbours lie in other banks
  Grid grid() const {
    return {int64_t{tiles} * static_cast<int>(blocks_for(rows, kRows)), kThreads,
            std::max(shared_bytes(kThreads, lanes), kAtOnce * kStaged * sizeof(float))};
  }
  CROSSBOW_GPU void operator()(const Thread& t) const {
    using Quad = Packet<float, 4>;
    const int row = static_cast<int>(t.block()) / tiles * kRows;
    const int input = static_cast<int>(t.block()) % tiles * kInputs + t.rank() % lanes * width;
    const int of_block = t.rank() / lanes;
    float* const staged = t.shared<float>();  // [output][row] of dy
    float sums[kSums] = {};
    CROSSBOW_ROLLED
    for (int first = 0; first < outputs; first += kAtOnce) {
      const int o = first + of_block;
      Packet<T, width> w{};
      if (input < inputs && o < outputs) {
        w = Packet<T, width>::at(weights + int64_t{o} * inputs + input);
      }
      for (int i = t.rank(); i < kAtOnce * kRows; i += kThreads) {
        const int output = first + i % kAtOnce, r = row + i / kAtOnce;
        const bool known = output < outputs && r < rows;
        staged[i % kAtOnce * kStaged + i / kAtOnce] =
            known ? float(dy[int64_t{r} * outputs + output]) : 0;
      }
      t.sync();
      CROSSBOW_UNROLL
      for (int r = 0; r < kRows; r += 4) {
        const Quad d = Quad::at(staged + of_block * kStaged + r);
        CROSSBOW_UNROLL
        for (int k = 0; k < 4; ++k) {
          CROSSBOW_UNROLL
          for (int i = 0; i < width; ++i) sums[(r + k) * kColumns + i] += d[k] * w[i];
        }
      }
      t.sync();
    }
    const float* const totals = add_up_block<lanes>(t, sums);  // [lane][row][of the packet]
    for (int i = t.rank(); i < kRows * kInputs; i += kThreads) {
      const int r = row + i / kInputs, of_tile = i % kInputs;
      const int c = static_cast<int>(t.block()) % tiles * kInputs + of_tile;
      if (r >= rows || c >= inputs) continue;
      dx[int64_t{r} * inputs + c] =
          totals[of_tile / width * kSums + i / kInputs * kColumns + of_tile % width];
    }
  }
};

/// A thread has a packet of inputs and kColumns outputs.
template <typename T, int width>
struct GradWeights {
  int rows, inputs, outputs;
  const T *x, *dy;
  T* dweights;
  float* dbias;

  int64_t threads() const { return inputs / width * blocks_for(outputs, kColumns); }
  CROSSBOW_GPU void operator()(int64_t thread) const {
    const int packets = inputs / width;
    const int input = static_cast<int>(thread) % packets * width;
    const int output = static_cast<int>(thread) / packets * kColumns;
    float sums[kColumns][width] = {}, of_bias[kColumns] = {};
    constexpr int kAtOnce = 4;  // rows whose loads are under way
    CROSSBOW_ROLLED
    for (int first = 0; first < rows; first += kAtOnce) {
      Packet<T, width> values[kAtOnce];
      float d[kAtOnce][kColumns];
      CROSSBOW_UNROLL
      for (int r = 0; r < kAtOnce; ++r) {
        const auto row = smaller(first + r, rows - 1);
        values[r] = Packet<T, width>::at(x + row * inputs + input);
        CROSSBOW_UNROLL
        for (int j = 0; j < kColumns; ++j) {
          const bool exists = first + r < rows && output + j < outputs;
          d[r][j] = exists ? float(dy[row * outputs + output + j]) : 0;
        }
      }
      CROSSBOW_UNROLL
      for (int r = 0; r < kAtOnce; ++r) {
        CROSSBOW_UNROLL
        for (int j = 0; j < kColumns; ++j) {
          of_bias[j] += d[r][j];
          CROSSBOW_UNROLL
          for (int i = 0; i < width; ++i) sums[j][i] += d[r][j] * values[r][i];
        }
      }
    }
    CROSSBOW_UNROLL
    for (int j = 0; j < kColumns; ++j) {
      if (output + j >= outputs) continue;
      Packet<T, width> result;
      CROSSBOW_UNROLL
      for (int i = 0; i < width; ++i) result.values[i] = sums[j][i];
      result.store(dweights + int64_t{output + j} * inputs + input);
      if (dbias && input == 0) dbias[output + j] = of_bias[j];
    }
  }
};

/// make(T{}, width), the type that stores and the width of packets of inputs.
template <typename Make>
Call with_packets(const FewRowsShape& s, const Make& make) {
  return with_storage(s.dtype, [&](auto t) -> Call {
    return with_width(s.inputs, [&](auto width) -> Call { return make(t, width); });
  });
}

int tiles_of(int64_t columns, int each) {
  return static_cast<int>(blocks_for(columns, each));
}

bool is_made_for(const FewRowsShape& s) {
  const int64_t most = std::max(s.inputs * s.outputs, kMostRows * std::max(s.inputs, s.outputs));
  return s.rows <= kMostRows && most <= std::numeric_limits<int>::max();
}

Call forward(const FewRowsShape& s, Activation activation, const void* x, const void* weights,
             const float* bias, void* y) {
  return with_packets(s, [&](auto t, auto width) -> Call {
    using T = decltype(t);
    const Forward<T, width()> f{static_cast<int>(s.rows),
                                static_cast<int>(s.inputs),
                                static_cast<int>(s.outputs),
                                tiles_of(s.outputs, kColumns),
                                activation,
                                static_cast<const T*>(x),
                                static_cast<const T*>(weights),
                                bias,
                                as<T>(y)};
    return [f](const Step&) { launch(f.grid(), f); };
  });
}

template <typename T, int width, int lanes>
Call call_to_grad_input(const FewRowsShape& s, const void* dy, const void* weights, void* dx) {
  using Kernel = GradInput<T, width, lanes>;
  const Kernel f{static_cast<int>(s.rows),
                 static_cast<int>(s.inputs),
                 static_cast<int>(s.outputs),
                 tiles_of(s.inputs, Kernel::kInputs),
                 static_cast<const T*>(dy),
                 static_cast<const T*>(weights),
                 as<T>(dx)};
  return [f](const Step&) { launch(f.grid(), f); };
}

/// Blocks for all of a GPU, if there are so many; but lanes whose loads are whole sectors of 32
/// bytes.
Call grad_input(const FewRowsShape& s, const void* dy, const void* weights, void* dx) {
  constexpr int64_t kEnough = 128;
  const int64_t packets = s.inputs / Channels::width_of(s.inputs) * blocks_for(s.rows, kRows);
  return with_packets(s, [&](auto t, auto width) -> Call {
    using T = decltype(t);
    constexpr int kFew = 32 / (width() * sizeof(T));
    if constexpr (kFew < 8) {
      if (packets / 8 < kEnough) {
        return call_to_grad_input<T, width(), kFew>(s, dy, weights, dx);
      }
    }
    return call_to_grad_input<T, width(), 8>(s, dy, weights, dx);
  });
}

Call grad_weights(const FewRowsShape& s, const void* x, const void* dy, void* dweights,
                  float* dbias) {
  return with_packets(s, [&](auto t, auto width) -> Call {
    using T = decltype(t);
    const GradWeights<T, width()> f{static_cast<int>(s.rows),
                                    static_cast<int>(s.inputs),
                                    static_cast<int>(s.outputs),
                                    static_cast<const T*>(x),
                                    static_cast<const T*>(dy),
                                    as<T>(dweights),
                                    dbias};
    return [f](const Step&) { for_each(f.threads(), f); };
  });
}

}  // namespace

const FewRowsCalls kFewRows{is_made_for, forward, grad_input, grad_weights};

}  // namespace crossbow::CROSSBOW_GRID
