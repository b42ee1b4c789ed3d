// Pictures: decoding JPEG and PNG from memory.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace crossbow::data {

/// 8-bit RGB, interleaved, rows from the top.
struct Image {
  int64_t height = 0, width = 0;
  std::vector<uint8_t> rgb;  // height × width × 3
};

struct PictureSize {
  int64_t height = 0, width = 0;
};

/// Pixels of a picture.
struct Region {
  int64_t top = 0, left = 0, height = 0, width = 0;
};

/// RGB somewhere in memory.
struct PixelView {
  const uint8_t* rgb = nullptr;  // the first pixel's
  int64_t stride = 0;            // bytes from one row to the next
  int64_t height = 0, width = 0;
};

/// No file of a picture may have more bytes.
constexpr size_t kLargestPicture = size_t{256} << 20;
/// No picture may have more pixels; checked before memory is taken.
constexpr int64_t kMaxPixels = int64_t{1} << 26;

/// Any colour type becomes RGB of 8 bits: grey is repeated, palettes are looked up, CMYK is
/// multiplied out, 16 bits are scaled, transparency is dropped. Colour profiles and gamma are
/// ignored, as is usual in training. Throws Error for a file that is damaged, cut short, or larger
/// than `max_pixels`.
Image decode_jpeg(std::span<const uint8_t> file, int64_t max_pixels = kMaxPixels);
Image decode_png(std::span<const uint8_t> file, int64_t max_pixels = kMaxPixels);
/// Into the memory of `image`, which grows if need be.
void decode_png(std::span<const uint8_t> file, Image& image, int64_t max_pixels = kMaxPixels);

/// Either of them, told by the first bytes.
Image decode_image(std::span<const uint8_t> file);
bool is_jpeg(std::span<const uint8_t> file);
/// Throws Error if it is none.
void expect_png(std::span<const uint8_t> file);

/// Decodes parts of JPEGs, one file after the other. One thread at a time.
class JpegReader {
 public:
  JpegReader();
  ~JpegReader();
  JpegReader(JpegReader&&) noexcept;

  /// Reads the header. The file's bytes must stay where they are until the part is read. Throws as
  /// decode_jpeg does.
  PictureSize open(std::span<const uint8_t> file, int64_t max_pixels = kMaxPixels);
  /// The region of the opened picture, once, of which one side is `reduction` times smaller (1, 2
  /// or 4; rounded up). It equals the same region of the whole picture bit for bit. Damage behind
  /// the region's last row is not noticed. Valid until the next call.
  PixelView read(const Region& region, int reduction);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace crossbow::data
