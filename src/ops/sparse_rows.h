// Samples that keep only their numbers that are not 0: what a sparse layer reads.
#pragma once

#include <memory>
#include <optional>

#include "core/batch_format.h"
#include "graph/graph.h"

namespace crossbow {

struct SparseRowsAttributes : Attributes {
  int64_t rows = 0, features = 0;
  std::shared_ptr<const RowRoom> room;
};

struct ColumnSliceAttributes : Attributes {
  int64_t first = 0, features = 0;
};

/// Of a batch that the step feeds: values [R], their columns i32 [R], each in [0, features), and
/// extents i32 [rows, 2]: where each row begins and ends in these. R is the room of so many rows,
/// of which the last may be unused; the first row begins at 0.
Tensor sparse_rows(Graph& graph, int64_t rows, int64_t features,
                   std::shared_ptr<const RowRoom> room, std::string name = "rows");
/// Sparse rows of the numbers of x in the columns from `first` on, which become the columns
/// [0, features). Three outputs, as of sparse_rows, with as much room; there may be gaps before and
/// between rows.
Tensor column_slice(Tensor x, int64_t first, int64_t features, std::string name = {});

/// Whether the step feeds it.
bool is_sparse_rows(const Node& node);
/// Such a node's attributes for another number of rows.
std::shared_ptr<const Attributes> sparse_rows_with_batch(const Node& node, int64_t batch);

struct SparseShape {
  int64_t features = 0;
  double mean_numbers = 0;  // of a row, about
};
/// Nothing if x is no sparse rows.
std::optional<SparseShape> sparse_shape(Tensor x);
/// Numbers in a row of x, which is [N, …] or sparse rows.
int64_t features_of(Tensor x);

}  // namespace crossbow
