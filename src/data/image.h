// Pictures: decoding JPEG and PNG from memory, and fitting them to a size.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "core/shape.h"

namespace crossbow::data {

/// 8-bit RGB, interleaved, rows from the top.
struct Image {
  int64_t height = 0, width = 0;
  std::vector<uint8_t> rgb;  // height × width × 3
};

/// No picture may have more pixels; checked before memory is taken.
constexpr int64_t kMaxPixels = int64_t{1} << 26;

/// Any colour type becomes RGB of 8 bits: grey is repeated, palettes are looked up, CMYK is
/// multiplied out, 16 bits are scaled, transparency is dropped. Colour profiles and gamma are
/// ignored, as is usual in training. Throws Error for a file that is damaged, cut short, or larger
/// than `max_pixels`.
Image decode_jpeg(std::span<const uint8_t> file, int64_t max_pixels = kMaxPixels);
Image decode_png(std::span<const uint8_t> file, int64_t max_pixels = kMaxPixels);

/// Either of them, told by the first bytes.
Image decode_image(std::span<const uint8_t> file);

/// Scales the picture's largest centred window of the target's proportions to height × width, and
/// writes it as 3 × height × width bytes. Bilinear, over a wider neighbourhood where it shrinks
/// (antialiased).
void fit(const Image& image, int64_t height, int64_t width, uint8_t* chw);

/// A JPEG or PNG file as it is. Throws Error, which names the file, if it cannot be read or
/// decoded.
Image read_image(const std::filesystem::path& path);
/// The same, fitted to a shape [channels, height, width] and written as CHW bytes: in colour for 3
/// channels, as luma (ITU-R BT.601) for 1.
void read_image(const std::filesystem::path& path, const Shape& shape, uint8_t* chw);

}  // namespace crossbow::data
