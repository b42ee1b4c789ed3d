// Products of sparse rows with weights that other threads may read and change meanwhile.
#include "kernels/cpu/simd/shared.h"
#include "kernels/cpu/simd/tables.h"
#include "kernels/cpu/simd/vec.h"

namespace crossbow::simd::CROSSBOW_ISA {
namespace {

/// Numbers of a row, and their columns.
struct Row {
  const float* values;
  const int32_t* columns;
  int64_t count;
};

inline Row row_of(const SparseNumbers& x, int64_t r) {
  const int32_t begin = x.extents[2 * r], end = x.extents[2 * r + 1];
  return {x.values + begin, x.columns + begin, end - begin};
}

/// y[o] = bias[o] + Σ value·w[column, o] for kOutputs outputs; w and the rest begin at the first.
/// Every second number has sums of its own, which need not wait for each other.
template <int kOutputs>
inline void few(const Row& row, const float* w, int64_t outputs, const float* bias, float* y) {
  float sums[2][kOutputs] = {};
  for (int o = 0; o < kOutputs && bias; ++o) sums[0][o] = load_shared_one(bias + o);
  const auto add = [&](int64_t k, float* to) {
    const float* const weights = w + row.columns[k] * outputs;
    for (int o = 0; o < kOutputs; ++o) to[o] += row.values[k] * load_shared_one(weights + o);
  };
  int64_t k = 0;
  for (; k + 2 <= row.count; k += 2) {
    add(k, sums[0]);
    add(k + 1, sums[1]);
  }
  if (k < row.count) add(k, sums[0]);
  for (int o = 0; o < kOutputs; ++o) y[o] = sums[0][o] + sums[1][o];
}

/// The same for kVectors vectors of outputs.
template <int kVectors>
inline void many(const Row& row, const float* w, int64_t outputs, const float* bias, float* y) {
  F32 sums[kVectors] = {};
  for (int v = 0; v < kVectors && bias; ++v) sums[v] = load_shared(bias + v * kLanes);
  for (int64_t k = 0; k < row.count; ++k) {
    const float* const weights = w + row.columns[k] * outputs;
    for (int v = 0; v < kVectors; ++v) {
      sums[v] += row.values[k] * load_shared(weights + v * kLanes);
    }
  }
  for (int v = 0; v < kVectors; ++v) store(y + v * kLanes, sums[v]);
}

void sparse_dense(const SparseDenseArgs& a, int64_t begin, int64_t end) {
  constexpr int kVectors = 4;
  const int64_t outputs = a.outputs;
  for (int64_t r = begin; r < end; ++r) {
    const Row row = row_of(a.x, r);
    float* const y = a.y + r * outputs;
    const auto bias = [&](int64_t o) { return a.bias ? a.bias + o : nullptr; };
    int64_t o = 0;
    for (; o + kVectors * kLanes <= outputs; o += kVectors * kLanes)
      many<kVectors>(row, a.weights + o, outputs, bias(o), y + o);
    for (; o + kLanes <= outputs; o += kLanes) many<1>(row, a.weights + o, outputs, bias(o), y + o);
    for (; o + 4 <= outputs; o += 4) few<4>(row, a.weights + o, outputs, bias(o), y + o);
    for (; o + 2 <= outputs; o += 2) few<2>(row, a.weights + o, outputs, bias(o), y + o);
    if (o < outputs) few<1>(row, a.weights + o, outputs, bias(o), y + o);
  }
}

void sparse_add(const SparseAddArgs& a, int64_t begin, int64_t end) {
  for (int64_t r = 0; r < a.rows; ++r) {
    const Row row = row_of(a.x, r);
    const float* const dy = a.dy + r * a.outputs;
    for (int64_t k = 0; k < row.count; ++k) {
      const float factor = a.factor * row.values[k];
      float* const to = a.to + row.columns[k] * a.outputs;
      int64_t o = begin;
      for (; o + kLanes <= end; o += kLanes)
        store_shared(to + o, load_shared(to + o) + factor * load(dy + o));
      for (; o < end; ++o) store_shared_one(to + o, load_shared_one(to + o) + factor * dy[o]);
    }
  }
}

}  // namespace

void add_sparse(Loops& loops) {
  loops.sparse_dense = sparse_dense;
  loops.sparse_add = sparse_add;
}

}  // namespace crossbow::simd::CROSSBOW_ISA
