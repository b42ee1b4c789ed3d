// Windows that slide over images: what the attributes of convolution and pooling are made of.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace crossbow {

/// A value for each axis of an image; one number says both: `.kernel = 3`, `.kernel = {1, 7}`.
struct Size2 {
  int64_t height, width;

  constexpr Size2(int64_t both) : height(both), width(both) {}
  constexpr Size2(int64_t height, int64_t width) : height(height), width(width) {}
  /// "3" where both are 3, else "1x7".
  std::string str() const;

  friend bool operator==(const Size2&, const Size2&) = default;
};

/// Rows and columns of padding around an image: one number for all sides, two for
/// {top and bottom, left and right}, or each side in ONNX's order. TensorFlow's SAME of a 3×3
/// kernel with stride 2 over an even size is {0, 0, 1, 1}.
struct Padding {
  int64_t top, left, bottom, right;

  constexpr Padding(int64_t all) : Padding(all, all) {}
  constexpr Padding(int64_t height, int64_t width) : Padding(height, width, height, width) {}
  constexpr Padding(int64_t top, int64_t left, int64_t bottom, int64_t right)
      : top(top), left(left), bottom(bottom), right(right) {}
  /// "1" where all are 1, "0x3" where opposite sides agree, else "0,0,1,1" in the order above.
  std::string str() const;

  friend bool operator==(const Padding&, const Padding&) = default;
};

/// How a window slides along one axis of an image.
struct WindowAxis {
  int64_t kernel, stride, dilation;
  int64_t before, after;  // padding

  constexpr bool is_valid() const {
    return kernel >= 1 && stride >= 1 && dilation >= 1 && before >= 0 && after >= 0;
  }
  /// Pixels from the first that a window reads to the last, both included.
  constexpr int64_t span() const { return dilation * (kernel - 1) + 1; }
  /// The first pixel of the window that makes output `position`; negative in the padding.
  constexpr int64_t start(int64_t position) const { return position * stride - before; }
  /// Windows that fit into `size` pixels and their padding; 0 where none does.
  constexpr int64_t positions(int64_t size) const {
    const int64_t travel = before + size + after - span();
    return travel < 0 ? 0 : travel / stride + 1;
  }
};

/// The axes of an image, in the order of its dimensions: height, width.
using WindowAxes = std::array<WindowAxis, 2>;
WindowAxes window_axes(const Size2& kernel, const Size2& stride, const Size2& dilation,
                       const Padding& padding);

}  // namespace crossbow
