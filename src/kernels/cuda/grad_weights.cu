#include "kernels/cuda/grad_weights.h"

#include <algorithm>

#include "kernels/cuda/prepare.h"

namespace crossbow::CROSSBOW_GRID {
namespace {

constexpr int kTile = 16;     // channels of x, and of y, that a block has
constexpr int kOfThread = 4;  // of each
constexpr int kQuads = kTile / kOfThread;
constexpr int kPixels = 32;  // of a strip: neighbours in a row of y

/// How the work is divided. Strips are dealt out to slices, and a slice's pixels to groups of its
/// block's threads; a part is what a group of a slice adds up.
struct Plan {
  static constexpr int kBlocks = 264, kMostTaps = 25;
  static constexpr int64_t kMostWeights = 128 * 128 * 9, kMostShared = 48 << 10;

  int64_t images, x_rows, x_columns, x_channels, y_rows, y_columns, y_channels;
  WindowAxis along_rows, along_columns;
  int taps, groups, span;  // columns of x that a strip's windows cover
  int64_t strips_of_row, x_tiles, y_tiles, slices;

  explicit Plan(const GradWeightsShape& s)
      : images(s.images),
        x_rows(s.x.rows),
        x_columns(s.x.columns),
        x_channels(s.x.channels),
        y_rows(s.y.rows),
        y_columns(s.y.columns),
        y_channels(s.y.channels),
        along_rows(s.axes[0]),
        along_columns(s.axes[1]),
        taps(static_cast<int>(along_rows.kernel * along_columns.kernel)),
        groups(std::max(1, kThreads / (kQuads * kQuads * taps))),
        span(static_cast<int>((kPixels - 1) * along_columns.stride + along_columns.span())),
        strips_of_row(blocks_for(y_columns, kPixels)),
        x_tiles(blocks_for(x_channels, kTile)),
        y_tiles(blocks_for(y_channels, kTile)),
        slices(smaller(strips(), blocks_for(kBlocks, x_tiles * y_tiles))) {}

  constexpr int64_t strips() const { return images * y_rows * strips_of_row; }
  int64_t weights() const { return y_channels * taps * x_channels; }
  int64_t parts() const { return slices * groups; }
  bool is_made_for() const {
    return taps <= kMostTaps && weights() <= kMostWeights &&
           static_cast<int64_t>(shared_bytes()) <= kMostShared;
  }
  size_t shared_bytes() const {
    return static_cast<size_t>(kPixels + along_rows.kernel * span) * kTile * sizeof(float);
  }
  Grid grid() const {
    const int threads = kQuads * kQuads * taps * groups;
    return {x_tiles * y_tiles * slices, (threads + kWarp - 1) / kWarp * kWarp, shared_bytes()};
  }
};

/// parts[p][i] = what part p adds to weight i.
template <typename T>
struct AddUpParts {
  Plan plan;
  const T *x, *dy;
  float* parts;

  CROSSBOW_GPU void operator()(const Thread& t) const {
    using Quad = Packet<float, kOfThread>;
    float* const dy_strip = t.shared<float>();          // [pixel][channel]
    float* const x_strip = dy_strip + kPixels * kTile;  // [window's row][column][channel]
    const int64_t tile = t.block() % (plan.x_tiles * plan.y_tiles);
    const int64_t slice = t.block() / (plan.x_tiles * plan.y_tiles);
    const int64_t x_first = tile % plan.x_tiles * kTile, y_first = tile / plan.x_tiles * kTile;
    const int quad = t.rank() % (kQuads * kQuads), of = t.rank() / (kQuads * kQuads);
    const int x_quad = quad % kQuads * kOfThread, y_quad = quad / kQuads * kOfThread;
    const int tap = of % plan.taps, group = of / plan.taps;
    const int columns = static_cast<int>(plan.along_columns.kernel);
    const int stride = static_cast<int>(plan.along_columns.stride);
    const float* const x_tap = x_strip +
                               (tap / columns * plan.span +
                                tap % columns * static_cast<int>(plan.along_columns.dilation)) *
                                   kTile +
                               x_quad;
    float sums[kOfThread][kOfThread] = {};
    for (int64_t strip = slice; strip < plan.strips(); strip += plan.slices) {
      load(t, strip, x_first, y_first, dy_strip, x_strip);
      t.sync();
      for (int pixel = group; pixel < kPixels && group < plan.groups; pixel += plan.groups) {
        const Quad a = Quad::at(dy_strip + pixel * kTile + y_quad);
        const Quad b = Quad::at(x_tap + pixel * stride * kTile);
        for (int i = 0; i < kOfThread; ++i) {
          for (int j = 0; j < kOfThread; ++j) sums[i][j] += a[i] * b[j];
        }
      }
      t.sync();
    }
    if (group >= plan.groups) return;
    float* const part =
        parts + (slice * plan.groups + group) * plan.y_channels * plan.taps * plan.x_channels;
    for (int i = 0; i < kOfThread; ++i) {
      const int64_t k = y_first + y_quad + i;
      for (int j = 0; j < kOfThread; ++j) {
        const int64_t c = x_first + x_quad + j;
        if (k < plan.y_channels && c < plan.x_channels) {
          part[(k * plan.taps + tap) * plan.x_channels + c] = sums[i][j];
        }
      }
    }
  }

  /// The strip's pixels of dy, and of x those that their windows cover; what is not there is 0.
  CROSSBOW_GPU void load(const Thread& t, int64_t strip, int64_t x_first, int64_t y_first,
                         float* dy_strip, float* x_strip) const {
    const int64_t y_row = strip / plan.strips_of_row;  // of all images
    const int64_t first = strip % plan.strips_of_row * kPixels;
    for (int i = t.rank(); i < kPixels * kTile; i += t.threads()) {
      const int64_t column = first + i / kTile, c = y_first + i % kTile;
      const bool exists = column < plan.y_columns && c < plan.y_channels;
      dy_strip[i] = exists ? float(dy[(y_row * plan.y_columns + column) * plan.y_channels + c]) : 0;
    }
    const int64_t image = y_row / plan.y_rows;
    const int64_t top = plan.along_rows.start(y_row % plan.y_rows);
    const int64_t left = plan.along_columns.start(first);
    const int row_elements = plan.span * kTile;
    for (int r = 0; r < static_cast<int>(plan.along_rows.kernel); ++r) {
      const int64_t row = top + r * plan.along_rows.dilation;
      const bool has_row = row >= 0 && row < plan.x_rows;
      const int64_t from = (image * plan.x_rows + row) * plan.x_columns;
      for (int i = t.rank(); i < row_elements; i += t.threads()) {
        const int64_t column = left + i / kTile, c = x_first + i % kTile;
        const bool exists =
            has_row && column >= 0 && column < plan.x_columns && c < plan.x_channels;
        x_strip[r * row_elements + i] =
            exists ? float(x[(from + column) * plan.x_channels + c]) : 0;
      }
    }
  }
};

/// weights[i] = Σ parts[p][i]; a block has a warp's width of weights, and its warps every n-th
/// part.
template <typename T>
struct SumOfParts {
  int64_t weights, parts;
  const float* by_part;
  T* result;

  static constexpr int kWarps = kThreads / kWarp;
  Grid grid() const { return {blocks_for(weights, kWarp), kThreads, kThreads * sizeof(float)}; }
  CROSSBOW_GPU void operator()(const Thread& t) const {
    float* const sums = t.shared<float>();
    const int64_t i = t.block() * kWarp + t.rank() % kWarp;
    constexpr int kAtOnce = 4;  // loads under way
    float mine[kAtOnce] = {};
    for (int64_t p = t.rank() / kWarp; p < parts && i < weights; p += kAtOnce * kWarps) {
      for (int j = 0; j < kAtOnce; ++j) {
        if (p + j * kWarps < parts) mine[j] += by_part[(p + j * kWarps) * weights + i];
      }
    }
    sums[t.rank()] = (mine[0] + mine[1]) + (mine[2] + mine[3]);
    t.sync();
    if (t.rank() >= kWarp || i >= weights) return;
    float sum = 0;
    for (int warp = 0; warp < kWarps; ++warp) sum += sums[warp * kWarp + t.rank()];
    result[i] = sum;
  }
};

std::optional<size_t> scratch_bytes(const GradWeightsShape& shape) {
  const Plan plan(shape);
  if (!plan.is_made_for()) return {};
  return static_cast<size_t>(plan.parts() * plan.weights()) * sizeof(float);
}

Call make(const GradWeightsShape& shape, const void* x, const void* dy, void* dweights,
          void* scratch) {
  const Plan plan(shape);
  return with_storage(shape.dtype, [&](auto t) -> Call {
    using T = decltype(t);
    const AddUpParts<T> add{plan, static_cast<const T*>(x), static_cast<const T*>(dy),
                            as<float>(scratch)};
    const SumOfParts<T> sum{plan.weights(), plan.parts(), as<float>(scratch), as<T>(dweights)};
    return [grid = plan.grid(), add, sum](const Step&) {
      launch(grid, add);
      launch(sum.grid(), sum);
    };
  });
}

}  // namespace

const GradWeightsCalls kGradWeights{scratch_bytes, make};

}  // namespace crossbow::CROSSBOW_GRID
