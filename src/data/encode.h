// Pictures as files: JPEG and PNG.
#pragma once

#include <cstdint>
#include <vector>

#include "data/image.h"

namespace crossbow::data {

/// `quality` is from 1 to 100, as libjpeg counts.
std::vector<uint8_t> encode_jpeg(const Image& image, int quality);
/// Of `channels` channels, 1 or 3, given one after the other.
std::vector<uint8_t> encode_png(const uint8_t* chw, int64_t channels, int64_t height,
                                int64_t width);

}  // namespace crossbow::data
