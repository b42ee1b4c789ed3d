#include "models/imagenet.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace crossbow {
namespace {

constexpr int64_t kMostPixels = 4096;  // of a side that a refusal names

bool fits(int64_t map, int64_t side) {
  return map >= side && map % side == 0;
}

/// The nearest side that fits, going by `step`; 0 where there is none.
int64_t nearest(int64_t image, int64_t step, int64_t side, MapSide map_side) {
  for (int64_t i = step < 0 ? std::min(image, kMostPixels) : image; i > 0 && i <= kMostPixels;
       i += step) {
    if (fits(map_side(i), side)) return i;
  }
  return 0;
}

}  // namespace

Initialiser torch_default(int64_t inputs) {
  const float most = 1 / std::sqrt(static_cast<float>(inputs));
  return Initialiser::uniform(-most, most);
}

Conv2d torch_default(Conv2d layer, int64_t channels) {
  const int64_t window = layer.kernel.height * layer.kernel.width;
  layer.weight_init = layer.bias_init = torch_default(channels / layer.groups * window);
  return layer;
}

Dense torch_default(Dense layer, int64_t inputs) {
  layer.weight_init = layer.bias_init = torch_default(inputs);
  return layer;
}

Recipe imagenet_recipe() {
  return {.data = "imagenet",
          .image_size = 224,
          .epochs = 90,
          .lr_schedule = "multistep",
          .mirror = true,
          .normalisation = Normalisation{{0.485f, 0.456f, 0.406f}, {0.229f, 0.224f, 0.225f}}};
}

void expect_equal_windows(std::string_view model, const Shape& images, int64_t side,
                          MapSide map_side) {
  if (images.rank() != 4) return;  // left to the first op's rule
  for (const int64_t image : {images[2], images[3]}) {
    if (fits(map_side(image), side)) continue;
    const int64_t below = nearest(image, -1, side, map_side);
    const int64_t above = nearest(image, 1, side, map_side);
    const std::string sides = below == 0   ? fmt::format("{}", above)
                              : above == 0 ? fmt::format("{}", below)
                                           : fmt::format("{} or {}", below, above);
    fail(
        "the model '{}' averages its last maps to {}x{}, which images of {}x{} do not give in "
        "equal parts: the nearest side to {} is {} pixels; scale a folder's images with "
        "`image-size`, or choose resnet-50",
        model, side, side, images[2], images[3], image, sides);
  }
}

Tensor average_to(Tensor x, int64_t side) {
  const Size2 window{x.shape()[2] / side, x.shape()[3] / side};
  return window == Size2(1) ? x : avg_pool(x, window);
}

}  // namespace crossbow
