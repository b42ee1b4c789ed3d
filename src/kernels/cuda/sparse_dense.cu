// Weights, and their gradient, lie input-major and in f32: a step touches few of them, and a
// feature's are neighbours. The gradient needs a batch's numbers by feature: lists of the rows'
// numbers in the order of columns are merged until a warp's threads have one each, in which each
// block finds the few numbers of its features.
#include "ops/sparse_dense.h"

#include "kernels/cuda/bias.h"
#include "kernels/cuda/rows.h"
#include "kernels/cuda/sparse.h"
#include "kernels/input_major.h"

namespace crossbow::CROSSBOW_GRID {
namespace {

constexpr int kAtOnce = 4;  // loads under way

/// A thread has neighbouring outputs of a row.
template <typename T, int width>
struct SparseDense {
  SparseNumbers x;
  int64_t outputs;
  const float *weights, *bias;  // bias may be null
  T* y;

  CROSSBOW_GPU void operator()(int64_t i) const {
    using Floats = Packet<float, width>;
    const int64_t row = i / (outputs / width), first = i % (outputs / width) * width;
    Floats sums{};
    if (bias) sums = Floats::at(bias + first);
    const int32_t end = x.extents[2 * row + 1];
    CROSSBOW_ROLLED
    for (int32_t n = x.extents[2 * row]; n < end; n += kAtOnce) {
      Floats loaded[kAtOnce] = {};
      float values[kAtOnce] = {};
      CROSSBOW_UNROLL
      for (int k = 0; k < kAtOnce; ++k) {
        if (n + k >= end) continue;
        loaded[k] = Floats::at(weights + x.columns[n + k] * outputs + first);
        values[k] = x.values[n + k];
      }
      CROSSBOW_UNROLL
      for (int k = 0; k < kAtOnce; ++k) {
        if (n + k >= end) continue;
        CROSSBOW_UNROLL
        for (int j = 0; j < width; ++j) sums.values[j] += values[k] * loaded[k][j];
      }
    }
    Packet<T, width> result;
    CROSSBOW_UNROLL
    for (int j = 0; j < width; ++j) result.values[j] = sums[j];
    result.store(y + i * width);
  }
};

/// Each has the numbers of neighbouring rows, by column and then by row.
struct Lists {
  struct Extent {
    int32_t begin, end;
  };

  float* values;
  int32_t* columns;
  int32_t* rows;  // null: each list is a row
  Extent* extents;
  int count;

  CROSSBOW_GPU int32_t find(int list, int64_t column) const {
    return first_from(columns, extents[list].begin, extents[list].end, column);
  }
  /// Where those of several lists lie without gaps, in the place of these.
  CROSSBOW_GPU Extent merged(int first, int last) const {
    Extent all{0, 0};
    for (int i = first; i < last; ++i) {
      const Extent one = extents[i];
      if (all.begin == all.end) all = {one.begin, one.begin};
      all.end += one.end - one.begin;
    }
    return all;
  }
};

/// Each number finds its place by counting, in each of the lists, those that come before it. A list
/// has a warp for each of its rows.
struct Merge {
  static constexpr int kListsBits = 4, kLists = 1 << kListsBits;

  Rows shape;
  int row_bits;  // of the rows of a list
  Lists from, to;

  CROSSBOW_GPU void operator()(const Thread& t) const {
    shape.for_each(t, [&](int64_t row, bool exists) {
      if (exists) move(t, row);
    });
  }

 private:
  CROSSBOW_GPU void move(const Thread& t, int64_t row) const {
    const int list = static_cast<int>(row >> row_bits);
    const int64_t first_row = int64_t{list} << row_bits;
    const int first = list & ~(kLists - 1);
    const int last = static_cast<int>(smaller(first + kLists, from.count));
    const Lists::Extent all = from.merged(first, last), own = from.extents[list];
    if (list == first && row == first_row && t.rank() % kWarp == 0) {
      to.extents[list >> kListsBits] = all;
    }
    const auto stride =
        static_cast<int32_t>(kWarp * smaller(shape.count - first_row, int64_t{1} << row_bits));
    CROSSBOW_ROLLED
    for (int32_t i = own.begin + static_cast<int32_t>(row - first_row) * kWarp + t.rank() % kWarp;
         i < own.end; i += stride) {
      const int32_t column = from.columns[i];
      int32_t at = all.begin + i - own.begin;
      for (int other = first; other < last; ++other) {
        if (other == list) continue;
        const int64_t behind = int64_t{column} + (other < list);
        at += from.find(other, behind) - from.extents[other].begin;
      }
      to.values[at] = from.values[i];
      to.columns[at] = column;
      to.rows[at] = from.rows ? from.rows[i] : list;
    }
  }
};

constexpr int kMostLists = kWarp;

/// A block has some features and outputs. Its warps take its numbers in turn, and each adds up what
/// its own contribute.
template <typename T, int width>
struct GradWeights {
  static constexpr int kFeatures = 8, kOutputs = kWarp * width, kWarps = kThreads / kWarp;
  static constexpr int kMostNumbers = 512;  // in shared memory

  struct Number {
    int32_t row, feature;  // of the block's
    float value;
  };
  struct alignas(16) Shared {
    float sums[kWarps][kFeatures][kOutputs];
    Number numbers[kMostNumbers];
    int32_t begin[kMostLists], end[kMostLists];  // of the block's, in each list
    int32_t before[kMostLists + 1];              // how many there are in earlier lists
  };

  Lists lists;
  int64_t features, outputs;
  const T* dy;
  float* dw;

  constexpr int64_t output_tiles() const { return blocks_for(outputs, kOutputs); }
  Grid grid() const {
    return {blocks_for(features, kFeatures) * output_tiles(), kThreads, sizeof(Shared)};
  }

  CROSSBOW_GPU void operator()(const Thread& t) const {
    Shared& shared = *t.shared<Shared>();
    const int64_t first_feature = t.block() / output_tiles() * kFeatures;
    const int64_t first_output = t.block() % output_tiles() * kOutputs;
    find(t, first_feature, shared);
    const int count = shared.before[lists.count];
    const int busy = static_cast<int>(smaller(count, kWarps));
    for (int f = 0; f < kFeatures && t.rank() / kWarp < busy; ++f) {
      Packet<float, width>{}.store(mine(t, shared, f));
    }
    CROSSBOW_ROLLED
    for (int first = 0; first < count; first += kMostNumbers) {
      const int end = static_cast<int>(smaller(first + kMostNumbers, count));
      gather(t, first_feature, first, end, shared);
      t.sync();
      add_up(t, end - first, first_output, shared);
      t.sync();
    }
    for (int i = t.rank(); i < kFeatures * kOutputs; i += t.threads()) {
      const int64_t feature = first_feature + i / kOutputs, output = first_output + i % kOutputs;
      if (feature >= features || output >= outputs) continue;
      float sum = 0;
      for (int warp = 0; warp < busy; ++warp) {
        sum += shared.sums[warp][i / kOutputs][i % kOutputs];
      }
      dw[feature * outputs + output] = sum;
    }
  }

 private:
  CROSSBOW_GPU float* mine(const Thread& t, Shared& shared, int feature) const {
    return shared.sums[t.rank() / kWarp][feature] + t.rank() % kWarp * width;
  }
  CROSSBOW_GPU void find(const Thread& t, int64_t first_feature, Shared& shared) const {
    const int list = t.rank() % kWarp, warp = t.rank() / kWarp;
    if (list < lists.count && warp == 0) shared.begin[list] = lists.find(list, first_feature);
    if (list < lists.count && warp == 1) {
      shared.end[list] = lists.find(list, first_feature + kFeatures);
    }
    t.sync();
    if (t.rank() <= lists.count) {
      int32_t sum = 0;
      for (int i = 0; i < t.rank(); ++i) sum += shared.end[i] - shared.begin[i];
      shared.before[t.rank()] = sum;
    }
    t.sync();
  }
  /// The numbers from `first` to `end`.
  CROSSBOW_GPU void gather(const Thread& t, int64_t first_feature, int first, int end,
                           Shared& shared) const {
    CROSSBOW_ROLLED
    for (int list = t.rank() / kWarp; list < lists.count; list += kWarps) {
      const int before = shared.before[list], after = shared.before[list + 1];
      const int last = after < end ? after : end;
      for (int i = (before > first ? before : first) + t.rank() % kWarp; i < last; i += kWarp) {
        const int32_t at = shared.begin[list] + i - before;
        shared.numbers[i - first] = {lists.rows[at],
                                     static_cast<int32_t>(lists.columns[at] - first_feature),
                                     lists.values[at]};
      }
    }
  }
  CROSSBOW_GPU void add_up(const Thread& t, int count, int64_t first_output, Shared& shared) const {
    using Floats = Packet<float, width>;
    using Values = Packet<T, width>;
    const int64_t output = first_output + t.rank() % kWarp * width;
    if (output >= outputs) return;
    CROSSBOW_ROLLED
    for (int i = t.rank() / kWarp; i < count; i += kAtOnce * kWarps) {
      Values loaded[kAtOnce] = {};
      CROSSBOW_UNROLL
      for (int k = 0; k < kAtOnce; ++k) {
        if (i + k * kWarps >= count) continue;
        loaded[k] = Values::at(dy + shared.numbers[i + k * kWarps].row * outputs + output);
      }
      CROSSBOW_UNROLL
      for (int k = 0; k < kAtOnce; ++k) {
        if (i + k * kWarps >= count) continue;
        const Number& number = shared.numbers[i + k * kWarps];
        float* const at = mine(t, shared, number.feature);
        Floats sums = Floats::at(at);
        CROSSBOW_UNROLL
        for (int j = 0; j < width; ++j) sums.values[j] += number.value * loaded[k][j];
        sums.store(at);
      }
    }
  }
};

/// How many times lists are merged, and what they need.
class Merging {
 public:
  Merging(int64_t numbers, int64_t rows) : numbers_(numbers), rows_(rows) {}

  size_t scratch_bytes() const {
    const bool again = rows_ > Merge::kLists * kMostLists;
    return (again ? 2 : 1) * bytes_of_lists();
  }
  /// The last one's lists are few enough.
  std::vector<Merge> steps(const SparseNumbers& x, std::byte* scratch) const {
    std::vector<Merge> steps;
    Lists from{x.values, x.columns, nullptr, reinterpret_cast<Lists::Extent*>(x.extents),
               static_cast<int>(rows_)};
    do {
      const int step = static_cast<int>(steps.size());
      const Lists to = lists(scratch + step % 2 * bytes_of_lists(), from.count);
      steps.push_back({{rows_, 0}, step * Merge::kListsBits, from, to});
      from = to;
    } while (from.count > kMostLists);
    return steps;
  }

 private:
  size_t bytes_of_lists() const {
    const auto most = static_cast<size_t>(blocks_for(rows_, Merge::kLists));
    return most * sizeof(Lists::Extent) +
           static_cast<size_t>(numbers_) * (sizeof(float) + 2 * sizeof(int32_t));
  }
  Lists lists(std::byte* at, int of) const {
    const auto count = static_cast<int>(blocks_for(of, Merge::kLists));
    auto* const extents = reinterpret_cast<Lists::Extent*>(at);
    auto* const values = reinterpret_cast<float*>(extents + blocks_for(rows_, Merge::kLists));
    auto* const columns = reinterpret_cast<int32_t*>(values + numbers_);
    return {values, columns, columns + numbers_, extents, count};
  }

  int64_t numbers_, rows_;
};

std::vector<Layout> rows_layouts(const PrepareContext& context) {
  return SparseNumbers::layouts([&](size_t i) { return context.input_type(i); });
}

PreparedKernel prepare(const PrepareContext& context) {
  const Layout y = Layout::plain(context.node.outputs[0].shape, context.precision);
  PreparedKernel kernel = prepared(rows_layouts(context), {y});
  kernel.inputs.push_back(input_major(context.input_type(3).shape));
  kernel.inputs.push_back(context.node.has_input(4) ? plain_f32({y.shape[1]}) : Layout{});
  kernel.bind = bind_storage(y.dtype, [n = y.elements(), outputs = y.shape[1]](auto t,
                                                                               const Operands& o) {
    using T = decltype(t);
    return with_width(outputs, [&](auto width) -> Call {
      const SparseDense<T, width()> f{SparseNumbers::of(o.inputs), outputs, as<float>(o.inputs[3]),
                                      as<float>(o.inputs[4]), as<T>(o.outputs[0])};
      return [packets = n / width(), f](const Step&) { for_each(packets, f); };
    });
  });
  return kernel;
}

PreparedKernel prepare_grad_weights(const PrepareContext& context) {
  const Layout dy = input_layout(context, 3), dw = input_major(context.node.outputs[0].shape);
  const bool with_bias = context.node.outputs.size() > 1;
  const int64_t rows = dy.shape[0], outputs = dy.shape[1], features = dw.shape[1];
  const BiasShape bias{dy.dtype, rows, outputs, {has_clusters(context.device), context.crowded}};
  const size_t bias_bytes = with_bias ? kBias.scratch_bytes(bias) : 0;
  const Merging merging(context.input_type(0).shape[0], rows);
  PreparedKernel kernel =
      prepared(rows_layouts(context), {dw}, bias_bytes + merging.scratch_bytes());
  kernel.inputs.push_back(dy);
  if (with_bias) kernel.outputs.push_back(plain_f32({outputs}));
  kernel.bind = bind_storage(dy.dtype, [=](auto t, const Operands& o) {
    using T = decltype(t);
    const auto merges =
        merging.steps(SparseNumbers::of(o.inputs), as<std::byte>(o.scratch) + bias_bytes);
    Call add_up_bias;
    if (with_bias) add_up_bias = kBias.sum(bias, o.inputs[3], as<float>(o.outputs[1]), o.scratch);
    return with_width(outputs, [&](auto width) -> Call {
      const GradWeights<T, width()> f{merges.back().to, features, outputs, as<T>(o.inputs[3]),
                                      as<float>(o.outputs[0])};
      return [=](const Step& step) {
        for (const Merge& merge : merges) launch(merge.shape.grid(), merge);
        launch(f.grid(), f);
        if (add_up_bias) add_up_bias(step);
      };
    });
  });
  return kernel;
}

const RegisterKernel kForward{kDevice, "sparse_dense", prepare};
const RegisterKernel kGradWeights{kDevice, "sparse_dense_grad_weights", prepare_grad_weights};

}  // namespace
}  // namespace crossbow::CROSSBOW_GRID
