// Fully connected layer of sparse rows. Of its weights, and of their gradient, it touches those of
// the features that the batch's rows have, and no others.
#pragma once

#include "graph/graph.h"

namespace crossbow {

struct SparseDenseAttributes : Attributes {
  int64_t features = 0;
  double mean_numbers = 0;  // of a row
};

/// x: sparse rows (ops/sparse_rows.h), N of them; weights [O, features], which lie input-major
/// where a device computes fast; optional bias [O]
/// -> [N, O] = bias + Σ x's value · weights[:, its column].
Tensor sparse_dense(Tensor x, Tensor weights, Tensor bias, std::string name = {});

// The gradient's op: sparse_dense_grad_weights(values, columns, extents, dy) -> dw and, with a
// bias, db as second output. Its kernel may have an update (kernels/kernel.h), which makes no dw.
struct SparseDenseGradAttributes : SparseDenseAttributes {
  bool with_bias = false;
};

}  // namespace crossbow
