// What residual nets are made of.
#pragma once

#include <string>

#include "models/layers.h"

namespace crossbow {

/// A convolution without bias that keeps the image's size, but for its stride.
inline Tensor same_conv(Tensor x, Conv2d conv, const std::string& name) {
  conv.padding = {conv.kernel.height / 2, conv.kernel.width / 2};
  conv.bias = false;
  return conv2d(x, conv, name);
}

/// The same, and batch norm.
inline Tensor conv_bn(Tensor x, const Conv2d& conv, const std::string& conv_name,
                      const std::string& bn_name) {
  return batch_norm(same_conv(x, conv, conv_name), {}, bn_name);
}

}  // namespace crossbow
