// SGD on weights that other threads read and change at the same time, each element on its own
// (Hogwild, Niu, Recht, Ré & Wright 2011):
//   s ← s − lr·(gradient_scale·g + weight_decay·w);  next = s
// with s of the shared weights, which is the slot "shared", and g of the gradient at w, which is
// what the updating thread last took of them. So a program works on weights of its own, and this
// one pass both gives and takes.
#pragma once

#include "device/optimizer.h"

namespace crossbow {

inline constexpr UpdateRule kHogwildSgd{"hogwild"};

inline Optimizer make_hogwild_sgd(double weight_decay) {
  return {&kHogwildSgd, {"shared"}, weight_decay};
}

}  // namespace crossbow
