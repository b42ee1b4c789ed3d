// What a net is trained by. The losses have PyTorch's names and compare the net's outputs with
// labels: classes, sets of classes or, MSELoss alone, numbers; ops/loss.h has their equations.
// BCEWithLogitsLoss and MSELoss are means over the classes too, so their gradients are smaller than
// cross-entropy's, and want a higher rate.
#pragma once

#include <variant>

#include "graph/graph.h"

namespace crossbow {

struct CrossEntropyLoss {
  float label_smoothing = 0;  // in [0, 1)
};
/// Of each class's sigmoid alone; with one logit for two classes, that of class 1.
struct BCEWithLogitsLoss {};
/// The distance from a number, or from 1 for a row's class and from 0 for the others.
struct MSELoss {};

using Loss = std::variant<CrossEntropyLoss, BCEWithLogitsLoss, MSELoss>;

/// Labels i32 [N], or f32 [N, classes] of sets of classes and of numbers -> a scalar.
Tensor append_loss(const Loss& loss, Tensor logits, Tensor labels);

/// Of a net whose outputs are all 0, as those of a net without training nearly are; and of the best
/// outputs that do not depend on the input. Both where the classes are equally frequent, and a
/// sample has so many of them.
double loss_of_zeros(const Loss& loss, int64_t classes, double labels = 1);
double loss_of_a_guess(const Loss& loss, int64_t classes, double labels = 1);

}  // namespace crossbow
