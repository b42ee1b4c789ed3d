// How weights of sparse rows lie on devices that compute fast: those of a feature, which a row
// touches, are neighbours. Devices that share parameters need no conversion.
#pragma once

#include "device/layout.h"

namespace crossbow {

/// `weights`: [outputs, features].
inline Layout input_major(const Shape& weights) {
  Layout layout = Layout::plain(weights, DType::f32);
  layout.strides = Shape{1, weights[0]};
  return layout;
}

}  // namespace crossbow
