#include "data/picture.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace crossbow::data {
namespace {

/// In fixed point, with weights that add up to 1, so that a grey picture keeps its values.
uint8_t luma(uint32_t red, uint32_t green, uint32_t blue) {
  return static_cast<uint8_t>((red * 19595 + green * 38470 + blue * 7471 + 0x8000) >> 16);
}

/// Whole positions of an axis of `size` that a window [begin, begin + length) and the filter's
/// reach around it touch.
std::pair<int64_t, int64_t> touched(double begin, double length, double reach, int64_t size) {
  const auto first = static_cast<int64_t>(std::floor(begin - reach));
  const auto last = static_cast<int64_t>(std::ceil(begin + length + reach));
  return {std::clamp<int64_t>(first, 0, size - 1), std::clamp<int64_t>(last, 1, size)};
}

PixelView part_of(const Image& image, const Region& region) {
  return {image.rgb.data() + (region.top * image.width + region.left) * 3, image.width * 3,
          region.height, region.width};
}

}  // namespace

Window centred(const PictureSize& picture, int64_t height, int64_t width, double share) {
  const auto in_height = static_cast<double>(picture.height);
  const auto in_width = static_cast<double>(picture.width);
  const double scale = share * std::min(in_height / static_cast<double>(height),
                                        in_width / static_cast<double>(width));
  const double h = scale * static_cast<double>(height), w = scale * static_cast<double>(width);
  return {(in_height - h) / 2, (in_width - w) / 2, h, w};
}

Window random_window(const PictureSize& picture, double least, Rng& rng) {
  constexpr double kWidest = 4.0 / 3;
  const auto height = static_cast<double>(picture.height);
  const auto width = static_cast<double>(picture.width);
  const auto below = [&](double n) { return rng.below(static_cast<uint32_t>(n) + 1); };
  for (int draw = 0; draw < 10; ++draw) {
    const double area = height * width * (least + (1 - least) * rng.uniform());
    const double ratio = std::pow(kWidest, 2.0 * rng.uniform() - 1);
    const double w = std::round(std::sqrt(area * ratio)), h = std::round(std::sqrt(area / ratio));
    if (w < 1 || h < 1 || w > width || h > height) continue;
    const double top = below(height - h), left = below(width - w);
    return {top, left, h, w, true};
  }
  const double w = std::min(width, std::round(height * kWidest));
  const double h = std::min(height, std::round(width * kWidest));
  return {std::floor((height - h) / 2), std::floor((width - w) / 2), h, w, true};
}

PictureSize PictureCutter::open(std::span<const uint8_t> file) {
  jpeg_ = is_jpeg(file);
  if (jpeg_) return size_ = reader_.open(file);
  expect_png(file);
  decode_png(file, png_);
  return size_ = {png_.height, png_.width};
}

void PictureCutter::cut(const Window& window, const Shape& shape, uint8_t* chw) {
  const auto out_height = static_cast<double>(shape[1]), out_width = static_cast<double>(shape[2]);
  const double shrinks = std::min(window.height / out_height, window.width / out_width);
  const int reduction = !jpeg_ || shrinks < 2 ? 1 : shrinks < 4 ? 2 : 4;
  const Window reduced{window.top / reduction, window.left / reduction, window.height / reduction,
                       window.width / reduction, window.alone};
  const auto reach = [&](double length, double out) {
    return reduced.alone ? 0.0 : std::max(1.0, length / out);
  };
  const auto of_size = [&](int64_t size) { return (size + reduction - 1) / reduction; };
  const auto [top, bottom] = touched(reduced.top, reduced.height, reach(reduced.height, out_height),
                                     of_size(size_.height));
  const auto [left, right] =
      touched(reduced.left, reduced.width, reach(reduced.width, out_width), of_size(size_.width));
  const Region region{top, left, bottom - top, right - left};
  const PixelView part = jpeg_ ? reader_.read(region, reduction) : part_of(png_, region);
  const Window in_part{reduced.top - static_cast<double>(top),
                       reduced.left - static_cast<double>(left), reduced.height, reduced.width};
  scale(part, in_part, shape, chw);
}

void PictureCutter::scale(const PixelView& part, const Window& window, const Shape& shape,
                          uint8_t* chw) {
  down_.set(part.height, window.top, window.height, shape[1]);
  across_.set(part.width, window.left, window.width, shape[2]);
  if (shape[0] == 3) return resizer_.resize(part, down_, across_, chw);
  const auto plane = static_cast<size_t>(shape[1] * shape[2]);
  colours_.resize(3 * plane);
  resizer_.resize(part, down_, across_, colours_.data());
  for (size_t i = 0; i < plane; ++i) {
    chw[i] = luma(colours_[i], colours_[i + plane], colours_[i + 2 * plane]);
  }
}

}  // namespace crossbow::data
