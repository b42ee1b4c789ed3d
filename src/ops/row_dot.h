// The products of matrix factorisation: of each row's factors, and what keeps factors small.
#pragma once

#include "graph/graph.h"

namespace crossbow {

/// a, b [N, C] -> [N, 1]: Σ_c a·b of each row.
Tensor row_dot(Tensor a, Tensor b);

struct RowDecayAttributes : Attributes {
  float decay = 0;
};
/// x [N, …] -> x. Training minimises decay · Σ x² / N besides the loss, which does not count it:
/// the decay of factors of Koren, Bell and Volinsky, "Matrix factorization techniques for
/// recommender systems" (2009), eq. 5. Only the rows that a batch reads are decayed. Outputs of
/// inference have no such node.
Tensor row_decay(Tensor x, float decay);

// The gradients' ops: row_dot_grad(dy, a, b) -> da, db; row_decay_grad(dy, x) with the same
// attributes -> dx = dy + 2 · decay · x / N.

}  // namespace crossbow
