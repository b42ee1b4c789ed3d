#include "models/limits.h"

#include "core/error.h"

namespace crossbow {

void expect_sides(std::string_view model, const Shape& images, int64_t least, int64_t most) {
  if (images.rank() != 4) return;
  for (const int64_t side : {images[2], images[3]}) {
    if (side >= least && side <= most) continue;
    fail(
        "the model '{}' is for images of {} to {} pixels a side, not {}x{}; scale a folder's "
        "images with `image-size`, or choose resnet-20",
        model, least, most, images[2], images[3]);
  }
}

void expect_inputs(std::string_view model, const Shape& samples, int64_t most) {
  if (samples.elements_from(1) <= most) return;
  fail(
      "the model '{}' is for images of at most {} numbers, not {} (each image is {}); scale a "
      "folder's images with `image-size`, or choose resnet-20",
      model, most, samples.elements_from(1),
      Shape(std::span(samples.begin() + 1, samples.end())).str());
}

}  // namespace crossbow
