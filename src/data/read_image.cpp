#include "core/error.h"
#include "data/image.h"
#include "data/source.h"

namespace crossbow::data {
namespace {

constexpr size_t kMaxFile = size_t{256} << 20;

/// In fixed point, with weights that add up to 1, so that a grey picture keeps its values.
uint8_t luma(uint32_t red, uint32_t green, uint32_t blue) {
  return static_cast<uint8_t>((red * 19595 + green * 38470 + blue * 7471 + 0x8000) >> 16);
}

}  // namespace

Image read_image(const std::filesystem::path& path) {
  const std::vector<uint8_t> bytes = read_file(path, kMaxFile);
  return naming_file(path, [&] { return decode_image(bytes); });
}

void read_image(const std::filesystem::path& path, const Shape& shape, uint8_t* chw) {
  const Image image = read_image(path);
  if (shape[0] == 3) return fit(image, shape[1], shape[2], chw);
  const auto plane = static_cast<size_t>(shape[1] * shape[2]);
  std::vector<uint8_t> rgb(3 * plane);
  fit(image, shape[1], shape[2], rgb.data());
  for (size_t i = 0; i < plane; ++i) chw[i] = luma(rgb[i], rgb[i + plane], rgb[i + 2 * plane]);
}

}  // namespace crossbow::data
