// Softmax along dimension 1 of [N, C].
#pragma once

#include "graph/graph.h"

namespace crossbow {

Tensor softmax(Tensor x);
// The gradient's op: softmax_grad(dy, y) -> dx = y·(dy − Σ dy·y).

}  // namespace crossbow
