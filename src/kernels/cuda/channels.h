// Kernels that look at a matrix [rows][channels] by channels: so lie activations with their
// channels last. A thread has a packet of neighbouring channels, as many as it loads at once, and
// some rows of a block's slice. Sums are added up in an order that the sizes and the target decide.
#pragma once

#include <type_traits>

#include "kernels/cuda/loops.h"
#include "kernels/cuda/target.h"

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

/// The matrix, and how a grid divides it into columns of channels and slices of rows, and a block
/// its threads into `lanes` packets of a row; all but the columns are powers of two, as a GPU has
/// no instruction for divisions. Where the slices of a column are a cluster, one kernel adds up and
/// uses the sums; else one adds up what another uses.
struct Channels {
  static constexpr int kPacketBits = 2, kPacket = 1 << kPacketBits;
  static constexpr int kAtOnce = 2;  // packets whose loads are under way
  static constexpr int kMostOfBlock = 64, kMostParts = 16;

  int rows, channels, width;  // of a packet
  float share;                // of a row
  bool cluster;
  int threads, lane_bits, slice_bits, columns;

  Channels(int64_t rows, int64_t channels, const Target& target)
      : rows(static_cast<int>(rows)),
        channels(static_cast<int>(channels)),
        width(width_of(channels)),
        share(1 / static_cast<float>(rows)),
        cluster(target.clusters) {
    if (cluster) {
      constexpr int kMostRowsOfThread = 16;  // else a few blocks take too long
      const int most_lanes = target.crowded ? 4 : 1;
      int of_block = kMostThreads;
      while (of_block > 2 * kWarp && of_block / 2 >= rows * most_lanes) of_block /= 2;
      divide(of_block, most_lanes, /*rows_of_thread=*/1, /*most_slices=*/8);
      cluster = rows <= int64_t{kMostRowsOfThread} * stride();
    }
    if (!cluster) {
      divide(kThreads, /*most_lanes=*/kMostOfBlock / width, /*rows_of_thread=*/2,
             /*most_slices=*/128);
    }
  }

  static int width_of(int64_t channels) { return channels % kPacket == 0 ? kPacket : 1; }
  Grid grid() const {
    const int slices = 1 << slice_bits;
    return {int64_t{columns} * slices, threads, shared_bytes(), cluster ? slices : 1};
  }
  size_t scratch_bytes() const {
    return cluster ? 0 : (static_cast<size_t>(channels) << slice_bits) * sizeof(Pair);
  }

  CROSSBOW_GPU int slice(const Thread& t) const {
    return static_cast<int>(t.block()) & ((1 << slice_bits) - 1);
  }
  /// Of the row's packets in the block, the thread's.
  CROSSBOW_GPU int lane(const Thread& t) const { return t.rank() & ((1 << lane_bits) - 1); }
  CROSSBOW_GPU int first_of_block(const Thread& t) const {
    return ((static_cast<int>(t.block()) >> slice_bits) << lane_bits) * width;
  }
  /// The first of the thread's channels.
  CROSSBOW_GPU int channel(const Thread& t) const { return first_of_block(t) + lane(t) * width; }
  /// Of all threads that have these channels one.
  CROSSBOW_GPU bool is_first(const Thread& t) const {
    return slice(t) == 0 && t.rank() >> lane_bits == 0;
  }

  /// use(i, load(i)) for the thread's packets, which begin at the matrix's i-th element. None of
  /// them may be written by another thread.
  template <typename Load, typename Use>
  CROSSBOW_GPU void for_packets(const Thread& t, const Load& load, const Use& use) const {
    const int c = channel(t);
    CROSSBOW_ROLLED
    for (int row = slice(t) * (threads >> lane_bits) + (t.rank() >> lane_bits); row < rows;
         row += kAtOnce * stride()) {
      decltype(load(int64_t{})) loaded[kAtOnce] = {};
      CROSSBOW_UNROLL
      for (int i = 0; i < kAtOnce; ++i) {
        const int r = row + i * stride();
        if (r < rows) loaded[i] = load(int64_t{r} * channels + c);
      }
      CROSSBOW_UNROLL
      for (int i = 0; i < kAtOnce; ++i) {
        const int r = row + i * stride();
        if (r < rows) use(int64_t{r} * channels + c, loaded[i]);
      }
    }
  }

  // Sums by channel of the block, in shared memory. All threads of the block must come here.

  /// Of the block's threads, each of which has added up `mine`: by the thread of that rank, for
  /// itself.
  template <int width>
  CROSSBOW_GPU Pair* sum_of_block(const Thread& t, const Pair (&mine)[width]) const {
    Pair* const all = sums(t) + 2 * kMostOfBlock;  // [row][channel]
    CROSSBOW_UNROLL
    for (int j = 0; j < width; ++j) all[t.rank() * width + j] = mine[j];
    t.sync();
    add_up<width>(t, all, threads >> lane_bits, of_block<width>(), true);
    return sums(t);
  }
  /// Of all slices, as SumRows has left them: for all threads.
  template <int width>
  CROSSBOW_GPU const Pair* sum_of_slices(const Thread& t, const Pair* by_slice) const {
    const int first = first_of_block(t);
    const bool there = first + (t.rank() & (of_block<width>() - 1)) < channels;
    add_up<width>(t, by_slice + first, 1 << slice_bits, channels, there);
    t.sync();
    return sums(t);
  }
  /// Of the cluster's blocks, each of which has sum_of_block(): for all threads.
  template <int width>
  CROSSBOW_GPU const Pair* sum_of_cluster(const Thread& t) const {
    Pair* const totals = sums(t) + kMostOfBlock;
    t.sync_cluster();
    if (t.rank() < of_block<width>()) {
      totals[t.rank()] = sum_of(0, 1 << slice_bits, 1,
                                [&](int block) { return t.shared_of(block, sums(t))[t.rank()]; });
    }
    t.sync();
    return totals;
  }
  template <int width>
  CROSSBOW_GPU int of_block() const {
    return width << lane_bits;
  }

 private:
  static int bits_of(int64_t count) {  // of the power of two that is at least as large
    int bits = 0;
    while (int64_t{1} << bits < count) ++bits;
    return bits;
  }
  void divide(int threads_of_block, int most_lanes, int rows_of_thread, int most_slices) {
    threads = threads_of_block;
    const int64_t packets = channels / width;
    lane_bits = bits_of(smaller(packets, most_lanes));
    columns = static_cast<int>(blocks_for(packets, int64_t{1} << lane_bits));
    const int64_t wanted = blocks_for(rows, int64_t{rows_of_thread} * (threads >> lane_bits));
    slice_bits = bits_of(smaller(wanted, most_slices));
  }
  size_t shared_bytes() const {
    return (2 * kMostOfBlock + static_cast<size_t>(threads * (width + 1))) * sizeof(Pair);
  }
  /// From a thread's row to its next.
  constexpr int stride() const { return threads >> lane_bits << slice_bits; }
  CROSSBOW_GPU Pair* sums(const Thread& t) const { return t.shared<Pair>() + threads; }
  /// sums(t)[c] = Σ of matrix[row][c] over the rows; `there` is false for channels without any.
  template <int width>
  CROSSBOW_GPU void add_up(const Thread& t, const Pair* matrix, int rows, int columns,
                           bool there) const {
    Pair* const parts = t.shared<Pair>();
    const int bits = lane_bits + (width == 1 ? 0 : kPacketBits),
              all_parts = static_cast<int>(smaller(threads >> bits, kMostParts));
    const int c = t.rank() & (of_block<width>() - 1), part = t.rank() >> bits;
    if (part < all_parts) {
      parts[t.rank()] = sum_of(part, there ? rows : 0, all_parts,
                               [&](int row) { return matrix[row * columns + c]; });
    }
    t.sync();
    if (part == 0) {
      sums(t)[c] = sum_of(0, all_parts, 1, [&](int p) { return parts[(p << bits) + c]; });
    }
  }
  /// Σ at(i) for i = first, first + step, … below the end.
  template <typename At>
  CROSSBOW_GPU static Pair sum_of(int first, int end, int step, const At& at) {
    Pair sum;
    CROSSBOW_ROLLED
    for (int i = first; i < end; i += kAtOnce * step) {
      Pair loaded[kAtOnce];
      CROSSBOW_UNROLL
      for (int k = 0; k < kAtOnce; ++k) {
        if (i + k * step < end) loaded[k] = at(i + k * step);
      }
      CROSSBOW_UNROLL
      for (int k = 0; k < kAtOnce; ++k) sum += loaded[k];
    }
    return sum;
  }
};

// A function f with the shape f.shape has two parts: f.add_up<width>(t, mine) adds the thread's
// elements to the sums of its channels, and f.apply<width>(t, sums) has the sums of all rows.

/// by_slice[s][c] = what f adds up.
template <int width, typename F>
struct SumRows {
  F f;
  Pair* by_slice;

  CROSSBOW_GPU void operator()(const Thread& t) const {
    const Channels& shape = f.shape;
    Pair mine[width];
    if (shape.channel(t) < shape.channels) f.template add_up<width>(t, mine);
    const Pair* const sums = shape.template sum_of_block<width>(t, mine);
    const int c = shape.first_of_block(t) + t.rank();
    if (t.rank() < shape.template of_block<width>() && c < shape.channels) {
      by_slice[int64_t{shape.slice(t)} * shape.channels + c] = sums[t.rank()];
    }
  }
};

template <int width, typename F>
struct ApplySums {
  F f;
  const Pair* by_slice;

  CROSSBOW_GPU void operator()(const Thread& t) const {
    const Channels& shape = f.shape;
    const Pair* const sums = shape.template sum_of_slices<width>(t, by_slice);
    if (shape.channel(t) < shape.channels) {
      f.template apply<width>(t, sums + shape.lane(t) * width);
    }
  }
};

/// Both, by clusters.
template <int width, typename F>
struct SumAndApply {
  F f;

  CROSSBOW_GPU void operator()(const Thread& t) const {
    const Channels& shape = f.shape;
    const bool has_channels = shape.channel(t) < shape.channels;
    Pair mine[width];
    if (has_channels) f.template add_up<width>(t, mine);
    shape.template sum_of_block<width>(t, mine);
    const Pair* const sums = shape.template sum_of_cluster<width>(t);
    t.leave_cluster();
    if (has_channels) f.template apply<width>(t, sums + shape.lane(t) * width);
    t.wait_for_leavers();
  }
};

/// Without sums.
template <int width, typename F>
struct Apply {
  F f;

  CROSSBOW_GPU void operator()(const Thread& t) const {
    if (f.shape.channel(t) < f.shape.channels) f.template apply<width>(t, nullptr);
  }
};

/// make(width), a constant, with that of the packets of so many channels.
template <typename Make>
auto with_width(int64_t channels, const Make& make) {
  if (Channels::width_of(channels) == 1) return make(std::integral_constant<int, 1>());
  return make(std::integral_constant<int, Channels::kPacket>());
}

/// `scratch` has f.shape.scratch_bytes().
template <typename F>
void sum_and_apply(const F& f, void* scratch) {
  with_width(f.shape.channels, [&](auto width) {
    const Grid grid = f.shape.grid();
    if (f.shape.cluster) return launch(grid, SumAndApply<width(), F>{f});
    Pair* const by_slice = static_cast<Pair*>(scratch);
    launch(grid, SumRows<width(), F>{f, by_slice});
    launch(grid, ApplySums<width(), F>{f, by_slice});
  });
}

template <typename F>
void apply(const F& f) {
  with_width(f.shape.channels, [&](auto width) { launch(f.shape.grid(), Apply<width(), F>{f}); });
}

}  // namespace crossbow::CROSSBOW_GRID
