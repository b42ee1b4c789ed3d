// Kernels that look at a matrix [rows][channels] by channels: so lie activations with their
// channels last. A thread has a packet of neighbouring channels, as many as it loads at once, and
// some rows of a block's slice. Sums are added up in an order that the sizes alone decide.
#pragma once

#include <type_traits>

#include "kernels/cuda/loops.h"

namespace crossbow::CROSSBOW_GRID {

/// Neighbours in memory.
template <typename T, int width>
struct alignas(sizeof(T) * width) Packet {
  T values[width];

  static CROSSBOW_GPU Packet at(const T* p) { return *reinterpret_cast<const Packet*>(p); }
  CROSSBOW_GPU void store(T* p) const { *reinterpret_cast<Packet*>(p) = *this; }
  CROSSBOW_GPU float operator[](int j) const { return values[j]; }
};

struct alignas(8) Pair {
  float a = 0, b = 0;
  CROSSBOW_GPU Pair& operator+=(const Pair& other) {
    a += other.a;
    b += other.b;
    return *this;
  }
};

/// The matrix, and how a grid divides it into slices of rows and columns of channels, and a block
/// its threads into `lanes` packets of a row.
struct Channels {
  static constexpr int kPacket = 4, kMostOfBlock = 64, kMostSlices = 128;
  static constexpr int kRowsOfThread = 2, kAtOnce = 2;  // at least; whose loads are under way

  int64_t rows, channels;
  int width;  // of a packet
  int columns, lanes, slices;

  Channels(int64_t rows, int64_t channels)
      : rows(rows), channels(channels), width(channels % kPacket == 0 ? kPacket : 1) {
    const int64_t packets = channels / width;
    columns = static_cast<int>(blocks_for(packets, kMostOfBlock / width));
    lanes = static_cast<int>(blocks_for(packets, columns));
    slices = static_cast<int>(
        smaller(blocks_for(rows, int64_t{kRowsOfThread} * rows_at_once()), kMostSlices));
  }

  Grid grid() const { return {int64_t{columns} * slices, kThreads, shared_bytes()}; }
  size_t scratch_bytes() const { return static_cast<size_t>(slices * channels) * sizeof(Pair); }

  constexpr int rows_at_once() const { return kThreads / lanes; }
  CROSSBOW_GPU int slice(const Thread& t) const { return static_cast<int>(t.block()) / columns; }
  CROSSBOW_GPU int64_t first_of_block(const Thread& t) const {
    return int64_t{static_cast<int>(t.block()) % columns} * lanes * width;
  }
  /// The first of the thread's channels.
  CROSSBOW_GPU int64_t channel(const Thread& t) const {
    return first_of_block(t) + t.rank() % lanes * width;
  }
  CROSSBOW_GPU bool has_channels(const Thread& t) const {
    return channel(t) < channels && t.rank() / lanes < rows_at_once();
  }
  /// Of all threads that have these channels one.
  CROSSBOW_GPU bool is_first(const Thread& t) const { return slice(t) == 0 && t.rank() < lanes; }

  /// use(i, load(i)) for the thread's packets, which begin at the matrix's i-th element. None of
  /// them may be written by another thread.
  template <typename Load, typename Use>
  CROSSBOW_GPU void for_packets(const Thread& t, const Load& load, const Use& use) const {
    const int64_t stride = int64_t{slices} * rows_at_once(), c = channel(t);
    int64_t row = int64_t{slice(t)} * rows_at_once() + t.rank() / lanes;
    for (; row < rows; row += kAtOnce * stride) {
      decltype(load(row)) loaded[kAtOnce] = {};
      CROSSBOW_UNROLL
      for (int i = 0; i < kAtOnce; ++i) {
        const int64_t r = row + i * stride;
        if (r < rows) loaded[i] = load(r * channels + c);
      }
      CROSSBOW_UNROLL
      for (int i = 0; i < kAtOnce; ++i) {
        const int64_t r = row + i * stride;
        if (r < rows) use(r * channels + c, loaded[i]);
      }
    }
  }

  /// Of the block's threads, whose sums have been added to `sums`, by channel of the block, in
  /// shared memory. All threads of the block must come here.
  template <int width>
  CROSSBOW_GPU const Pair* sum_of_block(const Thread& t, const Pair (&mine)[width]) const {
    Pair* const all = t.shared<Pair>() + kThreads + kMostOfBlock;  // [rows at once][of_block()]
    if (t.rank() / lanes < rows_at_once()) {
      CROSSBOW_UNROLL
      for (int j = 0; j < width; ++j) all[t.rank() * width + j] = mine[j];
    }
    t.sync();
    return add_up(t, all, rows_at_once(), of_block(), of_block());
  }
  /// Of all slices, as SumRows has left them, by channel of the block; likewise.
  CROSSBOW_GPU const Pair* total(const Thread& t, const Pair* by_slice) const {
    const int64_t first = first_of_block(t);
    const int64_t here = smaller(of_block(), channels - first);
    return add_up(t, by_slice + first, slices, channels, static_cast<int>(here));
  }

 private:
  CROSSBOW_GPU int of_block() const { return lanes * width; }
  size_t shared_bytes() const {
    return (kThreads + kMostOfBlock + static_cast<size_t>(kThreads * width)) * sizeof(Pair);
  }
  /// Σ of matrix[row][c] over the rows, for the first `count` of its columns.
  CROSSBOW_GPU const Pair* add_up(const Thread& t, const Pair* matrix, int rows, int64_t columns,
                                  int count) const {
    Pair *const parts = t.shared<Pair>(), *const sums = parts + kThreads;
    const int all_parts = t.threads() / count, c = t.rank() % count, part = t.rank() / count;
    if (part < all_parts) {
      Pair sum;
      for (int row = part; row < rows; row += all_parts) sum += matrix[row * columns + c];
      parts[t.rank()] = sum;
    }
    t.sync();
    if (t.rank() < count) {
      Pair sum;
      for (int p = 0; p < all_parts; ++p) sum += parts[p * count + c];
      sums[c] = sum;
    }
    t.sync();
    return sums;
  }
};

/// by_slice[s][c] = what f adds up: f.add_up<width>(t, sums) adds the thread's elements to its
/// channels' sums.
template <int width, typename F>
struct SumRows {
  F f;
  Pair* by_slice;

  CROSSBOW_GPU void operator()(const Thread& t) const {
    const Channels& shape = f.shape;
    Pair mine[width];
    if (shape.has_channels(t)) f.template add_up<width>(t, mine);
    const Pair* const sums = shape.sum_of_block(t, mine);
    const int64_t c = shape.first_of_block(t) + t.rank();
    if (t.rank() < shape.lanes * width && c < shape.channels) {
      by_slice[shape.slice(t) * shape.channels + c] = sums[t.rank()];
    }
  }
};

/// f.apply<width>(t) once the sums are there.
template <int width, typename F>
struct Apply {
  F f;

  CROSSBOW_GPU void operator()(const Thread& t) const { f.template apply<width>(t); }
};

/// Calls make(width), a constant, with that of the shape's packets.
template <typename Make>
void with_width(const Channels& shape, const Make& make) {
  if (shape.width == 1) return make(std::integral_constant<int, 1>());
  make(std::integral_constant<int, Channels::kPacket>());
}

template <typename F>
void sum_rows(const F& f, Pair* by_slice) {
  with_width(f.shape, [&](auto width) {
    launch(f.shape.grid(), SumRows<width(), F>{f, by_slice});
  });
}

template <typename F>
void apply(const F& f) {
  with_width(f.shape, [&](auto width) { launch(f.shape.grid(), Apply<width(), F>{f}); });
}

}  // namespace crossbow::CROSSBOW_GRID
