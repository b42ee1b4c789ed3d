#include "ops/window.h"

#include <fmt/format.h>

namespace crossbow {

std::string Size2::str() const {
  return height == width ? fmt::format("{}", height) : fmt::format("{}x{}", height, width);
}

std::string Padding::str() const {
  if (top != bottom || left != right) {
    return fmt::format("{},{},{},{}", top, left, bottom, right);
  }
  return Size2(top, left).str();
}

WindowAxes window_axes(const Size2& kernel, const Size2& stride, const Size2& dilation,
                       const Padding& padding) {
  return {{{kernel.height, stride.height, dilation.height, padding.top, padding.bottom},
           {kernel.width, stride.width, dilation.width, padding.left, padding.right}}};
}

}  // namespace crossbow
