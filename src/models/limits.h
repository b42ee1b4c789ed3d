// What a model says of images that it is not made for: one sentence with the model, the images and
// the remedy.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/shape.h"

namespace crossbow {

/// `images` is [N, C, H, W]; other ranks are left to the first op's rule. Throws Error unless both
/// sides have from `least` to `most` pixels.
void expect_sides(std::string_view model, const Shape& images, int64_t least, int64_t most);
/// Throws Error if a sample of `samples` [N, ...] has more than `most` numbers.
void expect_inputs(std::string_view model, const Shape& samples, int64_t most);

}  // namespace crossbow
