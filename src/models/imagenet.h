// What nets for ImageNet share.
#pragma once

#include "models/layers.h"
#include "models/model.h"

namespace crossbow {

/// As torch.nn.Linear and Conv2d begin, weights and biases alike: uniform in ±1/√inputs.
Initialiser torch_default(int64_t inputs);
Conv2d torch_default(Conv2d layer, int64_t channels);
Dense torch_default(Dense layer, int64_t inputs);

/// Recipes begin here: mirrored pictures, normalised as torchvision's weights expect.
Recipe imagenet_recipe();

/// The side of a net's last maps for images of that side; below 1 where a window finds no place.
using MapSide = int64_t (*)(int64_t image_side);
/// Throws Error unless the last maps of `images` [N, C, H, W] are made of side×side equal windows.
void expect_equal_windows(std::string_view model, const Shape& images, int64_t side,
                          MapSide map_side);
/// The average of each of them, which is torchvision's AdaptiveAvgPool2d there.
Tensor average_to(Tensor x, int64_t side);

}  // namespace crossbow
