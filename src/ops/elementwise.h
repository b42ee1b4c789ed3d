// Sums and products of tensors of one shape: the ops "add" and "multiply".
#pragma once

#include "graph/graph.h"

namespace crossbow {

struct AddAttributes : Attributes {
  bool relu = false;  // set by fusion: y = relu(a + b)
};

Tensor add(Tensor a, Tensor b);
Tensor multiply(Tensor a, Tensor b);

}  // namespace crossbow
