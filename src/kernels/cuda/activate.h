// Activations of one element.
#pragma once

#include <cmath>

#include "kernels/cuda/grid.h"
#include "ops/activation.h"

namespace crossbow::CROSSBOW_GRID {

CROSSBOW_GPU inline float activate(Activation activation, float x) {
  switch (activation) {
    case Activation::none:
      return x;
    case Activation::relu:
      return x < 0 ? 0 : x;
    case Activation::relu6:
      return x < 0 ? 0 : x > 6 ? 6 : x;
    case Activation::sigmoid:
      return 1 / (1 + expf(-x));
    case Activation::tanh:
      return tanhf(x);
  }
  return x;
}

/// The derivative at the point whose activation is y.
CROSSBOW_GPU inline float derivative(Activation activation, float y) {
  switch (activation) {
    case Activation::none:
      return 1;
    case Activation::relu:
      return y > 0 ? 1 : 0;
    case Activation::relu6:
      return y > 0 && y < 6 ? 1 : 0;
    case Activation::sigmoid:
      return y * (1 - y);
    case Activation::tanh:
      return 1 - y * y;
  }
  return 1;
}

/// One that the compiler knows, for kernels with many copies of it.
template <Activation activation>
struct Fixed {
  CROSSBOW_GPU float operator()(float x) const { return activate(activation, x); }
  CROSSBOW_GPU float derivative(float y) const { return CROSSBOW_GRID::derivative(activation, y); }
};

}  // namespace crossbow::CROSSBOW_GRID
