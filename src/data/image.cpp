#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <string_view>

#include "core/error.h"
#include "data/image.h"

namespace crossbow::data {
namespace {

constexpr int kBits = 14;  // of a weight's fixed point: a row of weights adds up to 1 << kBits

/// Each output position's share of the input positions from `first` on.
struct Taps {
  int64_t first;
  std::vector<int32_t> weights;
};

/// A triangle as wide as two output pixels, or two input pixels where the picture grows. The window
/// [begin, begin + length) of `in` input positions is scaled to `out` positions.
std::vector<Taps> triangle_taps(int64_t in, double begin, double length, int64_t out) {
  const double scale = length / static_cast<double>(out);
  const double radius = std::max(1.0, scale);
  std::vector<Taps> taps;
  for (int64_t o = 0; o < out; ++o) {
    const double centre = begin + (static_cast<double>(o) + 0.5) * scale;
    const int64_t first = std::max<int64_t>(0, std::llround(centre - radius));
    const int64_t last = std::min<int64_t>(in, std::llround(centre + radius));
    std::vector<double> shares;
    double sum = 0;
    for (int64_t i = first; i < last; ++i) {
      const double distance = std::abs(static_cast<double>(i) + 0.5 - centre) / radius;
      shares.push_back(std::max(0.0, 1 - distance));
      sum += shares.back();
    }
    Taps tap{first, {}};
    for (const double share : shares) {
      tap.weights.push_back(static_cast<int32_t>(std::lround(share / sum * (1 << kBits))));
    }
    taps.push_back(std::move(tap));
  }
  return taps;
}

uint8_t round_to_byte(int32_t sum) {
  return static_cast<uint8_t>(std::clamp((sum + (1 << (kBits - 1))) >> kBits, 0, 255));
}

/// height × width × 3 to height × taps.size() × 3.
std::vector<uint8_t> scale_rows(const Image& image, const std::vector<Taps>& taps) {
  std::vector<uint8_t> out;
  out.reserve(static_cast<size_t>(image.height) * taps.size() * 3);
  for (int64_t y = 0; y < image.height; ++y) {
    const uint8_t* row = image.rgb.data() + y * image.width * 3;
    for (const Taps& tap : taps) {
      std::array<int32_t, 3> sum{};
      const uint8_t* in = row + tap.first * 3;
      for (const int32_t weight : tap.weights) {
        for (size_t c = 0; c < 3; ++c) sum[c] += weight * *in++;
      }
      for (const int32_t s : sum) out.push_back(round_to_byte(s));
    }
  }
  return out;
}

void split_channels(const Image& image, uint8_t* chw) {
  for (size_t c = 0; c < 3; ++c) {
    for (size_t i = c; i < image.rgb.size(); i += 3) *chw++ = image.rgb[i];
  }
}

}  // namespace

Image decode_image(std::span<const uint8_t> file) {
  const auto begins_with = [&](std::string_view magic) {
    return file.size() >= magic.size() && std::memcmp(file.data(), magic.data(), magic.size()) == 0;
  };
  if (begins_with("\xFF\xD8\xFF")) return decode_jpeg(file);
  if (begins_with("\x89PNG\r\n\x1A\n")) return decode_png(file);
  fail("this is neither a JPEG nor a PNG: convert it or take it away");
}

void fit(const Image& image, int64_t height, int64_t width, uint8_t* chw) {
  if (image.height == height && image.width == width) return split_channels(image, chw);
  const auto in_height = static_cast<double>(image.height);
  const auto in_width = static_cast<double>(image.width);
  const double scale =
      std::min(in_height / static_cast<double>(height), in_width / static_cast<double>(width));
  const double window_height = scale * static_cast<double>(height);
  const double window_width = scale * static_cast<double>(width);
  const std::vector<uint8_t> rows = scale_rows(
      image, triangle_taps(image.width, (in_width - window_width) / 2, window_width, width));
  const std::vector<Taps> taps =
      triangle_taps(image.height, (in_height - window_height) / 2, window_height, height);
  const int64_t plane = height * width;
  for (int64_t y = 0; y < height; ++y) {
    const Taps& tap = taps[static_cast<size_t>(y)];
    for (int64_t i = 0; i < width * 3; ++i) {
      const uint8_t* in = rows.data() + tap.first * width * 3 + i;
      int32_t sum = 0;
      for (const int32_t weight : tap.weights) {
        sum += weight * *in;
        in += width * 3;
      }
      chw[i % 3 * plane + y * width + i / 3] = round_to_byte(sum);
    }
  }
}

}  // namespace crossbow::data
