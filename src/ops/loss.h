// Losses, each the mean as a scalar, f32 at every precision; and accuracy.
#pragma once

#include "graph/graph.h"

namespace crossbow {

struct CrossEntropyAttributes : Attributes {
  float label_smoothing = 0;  // in [0, 1): target = (1 − s)·onehot + s / classes, as in PyTorch
};

/// logits [N, C], labels i32 [N] -> mean over rows of −Σ target·log softmax(logits). The second
/// output is softmax(logits).
Tensor softmax_cross_entropy(Tensor logits, Tensor labels, float label_smoothing = 0);

// The targets of the next two losses are f32 of x's shape, or class labels i32 [N] of an x [N, C]:
// then a row's target is 1 in the column of its label and 0 elsewhere. A single column (C = 1)
// stands for class 1 of two: its target is 1 where the label is 1.
constexpr int64_t class_of_column(int64_t column, int64_t columns) {
  return columns == 1 ? 1 : column;
}

/// Logits x [N, C] -> mean over all elements of the binary cross-entropy of sigmoid(x), in the form
/// that does not overflow: max(x,0) − x·t + log(1 + exp(−|x|)).
Tensor sigmoid_cross_entropy(Tensor logits, Tensor targets);
/// Mean over all elements of (x − target)².
Tensor mean_squared_error(Tensor x, Tensor targets);

struct AccuracyAttributes : Attributes {
  int64_t top_k = 1;
};
/// Fraction of rows whose label is among the top_k largest logits, a scalar. A logit counts as
/// larger than the label's if it is greater, or equal and of a smaller class index.
Tensor accuracy(Tensor logits, Tensor labels, int64_t top_k = 1);
/// One logit [N, 1] for two classes: fraction of rows where it is above 0 just if the label is 1, a
/// scalar.
Tensor binary_accuracy(Tensor logits, Tensor labels);

/// Logits [N, C], targets f32 [N, C] -> fraction of rows whose largest logit, the first of equals,
/// has a target above 0, a scalar. A row with a NaN counts as wrong.
Tensor precision_at_1(Tensor logits, Tensor targets);

// The gradients' ops (g is the scalar d(total)/d(loss)): softmax_cross_entropy_grad(g,
// probabilities, labels), sigmoid_cross_entropy_grad(g, logits, targets),
// mean_squared_error_grad(g, x, targets). Targets get no gradient.

}  // namespace crossbow
