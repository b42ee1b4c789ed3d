// What is cut out of a picture, and scaled to the size of a net's images.
#pragma once

#include <cstdint>
#include <span>

#include "core/rng.h"
#include "core/shape.h"
#include "data/image.h"
#include "data/resize.h"

namespace crossbow::data {

/// A part of a picture, in its pixels.
struct Window {
  double top = 0, left = 0, height = 0, width = 0;
  /// The part is cut out and then scaled; else pixels around it count where the filter reaches
  /// them, as if the picture were scaled and the part cut out then.
  bool alone = false;
};

/// So large a share of the largest part of the proportions height : width, from the middle.
Window centred(const PictureSize& picture, int64_t height, int64_t width, double share = 1);

/// Torchvision's RandomResizedCrop: whole pixels of an area that is uniform between `least` and 1
/// of the picture's, and of proportions between 3 : 4 and 4 : 3. If ten draws do not fit into the
/// picture, it is from the middle.
Window random_window(const PictureSize& picture, double least, Rng& rng);

/// Decodes parts of JPEGs and PNGs, and scales them; keeps its memory. One thread at a time.
class PictureCutter {
 public:
  /// Reads the header. The file's bytes must stay where they are until the part is cut. Throws
  /// Error as decode_image does.
  PictureSize open(std::span<const uint8_t> file);
  /// The window of the opened picture, once, scaled to a shape [channels, height, width] as CHW
  /// bytes: in colour for 3 channels, as luma (ITU-R BT.601) for 1. Where a JPEG shrinks to less
  /// than half, or a quarter, its decoder halves it before.
  void cut(const Window& window, const Shape& shape, uint8_t* chw);

 private:
  void scale(const PixelView& part, const Window& window, const Shape& shape, uint8_t* chw);

  bool jpeg_ = false;
  PictureSize size_;
  JpegReader reader_;
  Image png_;
  Taps down_, across_;
  Resizer resizer_;
  std::vector<uint8_t> colours_;
};

}  // namespace crossbow::data
