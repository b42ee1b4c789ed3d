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

const Op& kSparseRows = register_op({.name = "sparse_rows", .infer = infer});

}  // namespace

Tensor sparse_rows(Graph& graph, int64_t rows, int64_t features,
                   std::shared_ptr<const RowRoom> room, std::string name) {
  auto a = std::make_shared<SparseRowsAttributes>();
  a->rows = rows;
  a->features = features;
  a->room = std::move(room);
  return graph.append(kSparseRows, {}, std::move(a), std::move(name));
}

bool is_sparse_rows(const Node& node) {
  return node.op == &kSparseRows;
}

std::shared_ptr<const Attributes> sparse_rows_with_batch(const Node& node, int64_t batch) {
  auto a = std::make_shared<SparseRowsAttributes>(node.attrs<SparseRowsAttributes>());
  a->rows = batch;
  return a;
}

int64_t features_of(Tensor x) {
  const Node& node = x.graph->node(x.value);
  return is_sparse_rows(node) ? node.attrs<SparseRowsAttributes>().features
                              : x.shape().elements_from(1);
}

}  // namespace crossbow
