// What torchvision's GoogLeNet and Inception are made of.
#pragma once

#include <string>

#include "models/layers.h"
#include "ops/activation.h"

namespace crossbow {

/// torchvision's BasicConv2d: a convolution without bias, batch norm and ReLU.
inline Tensor basic_conv(Tensor x, Conv2d conv, const std::string& name) {
  conv.bias = false;
  const auto scope = x.graph->scope(name);
  return relu(batch_norm(conv2d(x, conv, "conv"), {.epsilon = 1e-3f}, "bn"));
}

}  // namespace crossbow
