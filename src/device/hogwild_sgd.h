// SGD on weights that other threads read and change at the same time, each element on its own
// (Hogwild, Niu, Recht, Ré & Wright 2011):
//   s ← s − lr·(gradient_scale·g + weight_decay·w);  next = s
// with s of the shared weights, which is the slot "shared", and g of the gradient at w, which is
// what the updating thread last took of them. So a program works on weights of its own, and this
// one pass both gives and takes; or only gives, where the thread takes all before each step. One
// that overwrites puts w in the place of s on the right, and so takes back what others have done
// since it took w.
// A layer of sparse rows has no copy of its weights: it reads and changes s where its rows are not
// 0, and a pass over all would cost a hundred times as much.
#pragma once

#include "device/optimizer.h"

namespace crossbow {

inline constexpr UpdateRule kHogwildSgd{"hogwild", /*by_parameter=*/false, /*live=*/true};
/// Of the rule: 1 if it overwrites.
inline constexpr size_t kHogwildOverwrites = 0;

inline Optimizer make_hogwild_sgd(const WeightDecay& weight_decay, bool overwrites = false) {
  Optimizer optimizer{&kHogwildSgd, {"shared"}, weight_decay};
  optimizer.coefficients[kHogwildOverwrites] = overwrites ? 1 : 0;
  return optimizer;
}

/// Only takes: next = s. It reads neither weights nor gradient.
inline constexpr UpdateRule kTakeShared{"take shared weights"};

}  // namespace crossbow
