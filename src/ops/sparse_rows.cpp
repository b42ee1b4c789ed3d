#include "ops/sparse_rows.h"

#include <algorithm>
#include <limits>

#include "core/error.h"
#include "graph/op.h"

namespace crossbow {
namespace {

std::vector<TensorType> infer(const Node& node, std::span<const TensorType>) {
  const auto& a = node.attrs<SparseRowsAttributes>();
  const int64_t room = std::max<int64_t>(a.room->of(a.rows), 1);
  if (room > std::numeric_limits<int32_t>::max()) {
    fail("{} rows may have {} numbers, which are too many for one batch: choose fewer rows", a.rows,
         room);
  }
  return {{Shape{room}}, {Shape{room}, DType::i32}, {Shape{a.rows, 2}, DType::i32}};
}

std::vector<TensorType> infer_slice(const Node&, std::span<const TensorType> in) {
  return {in[0], in[1], in[2]};
}

const Op& kSparseRows = register_op({.name = "sparse_rows", .infer = infer});
const Op& kColumnSlice = register_op({.name = "column_slice", .infer = infer_slice});

}  // namespace

Tensor sparse_rows(Graph& graph, int64_t rows, int64_t features,
                   std::shared_ptr<const RowRoom> room, std::string name) {
  auto a = std::make_shared<SparseRowsAttributes>();
  a->rows = rows;
  a->features = features;
  a->room = std::move(room);
  return graph.append(kSparseRows, {}, std::move(a), std::move(name));
}

Tensor column_slice(Tensor x, int64_t first, int64_t features, std::string name) {
  const auto shape = sparse_shape(x);
  if (!shape) fail("layer {}: x is no batch of sparse rows", name);
  if (first < 0 || features < 1 || first + features > shape->features) {
    fail("layer {}: {} columns from {} on are not among {}", name, features, first,
         shape->features);
  }
  auto a = std::make_shared<ColumnSliceAttributes>();
  a->first = first;
  a->features = features;
  return x.graph->append(kColumnSlice, {x.value, x.output(1).value, x.output(2).value},
                         std::move(a), std::move(name));
}

bool is_sparse_rows(const Node& node) {
  return node.op == &kSparseRows;
}

std::shared_ptr<const Attributes> sparse_rows_with_batch(const Node& node, int64_t batch) {
  auto a = std::make_shared<SparseRowsAttributes>(node.attrs<SparseRowsAttributes>());
  a->rows = batch;
  return a;
}

std::optional<SparseShape> sparse_shape(Tensor x) {
  const Node& node = x.graph->node(x.value);
  if (is_sparse_rows(node)) {
    const auto& a = node.attrs<SparseRowsAttributes>();
    return SparseShape{a.features, a.room->mean};
  }
  if (node.op != &kColumnSlice) return {};
  const SparseShape all = *sparse_shape({x.graph, node.inputs[0]});
  const int64_t features = node.attrs<ColumnSliceAttributes>().features;
  const double share = static_cast<double>(features) / static_cast<double>(all.features);
  return SparseShape{features, share * all.mean_numbers};
}

int64_t features_of(Tensor x) {
  const auto sparse = sparse_shape(x);
  return sparse ? sparse->features : x.shape().elements_from(1);
}

}  // namespace crossbow
