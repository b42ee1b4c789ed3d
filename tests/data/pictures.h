// Writes small JPEG and PNG files, with the libraries' own encoders.
#pragma once

#include <cstdio>

#include <jpeglib.h>
#include <png.h>

#include "data/files.h"
#include "data/image.h"

namespace crossbow::data {

/// Smooth colours, so that JPEG keeps them closely.
inline Image gradient(int64_t height, int64_t width) {
  Image image{height, width, {}};
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      image.rgb.push_back(static_cast<uint8_t>(40 + 160 * y / height));
      image.rgb.push_back(static_cast<uint8_t>(40 + 160 * x / width));
      image.rgb.push_back(128);
    }
  }
  return image;
}

struct JpegStyle {
  J_COLOR_SPACE stored = JCS_YCbCr;  // JCS_GRAYSCALE stores the first channel, JCS_CMYK inverts RGB
  bool progressive = false;
  int across = 2, down = 2;  // pixels that share a colour
  bool adobe = true;         // whether a CMYK file has Adobe's marker, and its inverted ink
};

inline FileBytes encode_jpeg(const Image& image, const JpegStyle& style = {}) {
  const bool cmyk = style.stored == JCS_CMYK, grey = style.stored == JCS_GRAYSCALE;
  jpeg_compress_struct jpeg{};
  jpeg_error_mgr errors;
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_compress(&jpeg);
  unsigned char* buffer = nullptr;
  unsigned long size = 0;  // NOLINT: libjpeg's type
  jpeg_mem_dest(&jpeg, &buffer, &size);
  jpeg.image_width = static_cast<JDIMENSION>(image.width);
  jpeg.image_height = static_cast<JDIMENSION>(image.height);
  jpeg.input_components = cmyk ? 4 : grey ? 1 : 3;
  jpeg.in_color_space = cmyk ? JCS_CMYK : grey ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(&jpeg);
  jpeg_set_colorspace(&jpeg, style.stored);
  jpeg_set_quality(&jpeg, 95, TRUE);
  if (cmyk) jpeg.write_Adobe_marker = style.adobe;
  if (!grey) {
    jpeg.comp_info[0].h_samp_factor = style.across;
    jpeg.comp_info[0].v_samp_factor = style.down;
  }
  if (style.progressive) jpeg_simple_progression(&jpeg);
  jpeg_start_compress(&jpeg, TRUE);
  std::vector<uint8_t> row;
  for (int64_t y = 0; y < image.height; ++y) {
    row.clear();
    for (int64_t x = 0; x < image.width; ++x) {
      const uint8_t* p = image.rgb.data() + 3 * (y * image.width + x);
      for (int c = 0; c < (grey ? 1 : 3); ++c) {
        row.push_back(cmyk && !style.adobe ? static_cast<uint8_t>(255 - p[c]) : p[c]);
      }
      if (cmyk) row.push_back(style.adobe ? 255 : 0);
    }
    JSAMPROW pointer = row.data();
    jpeg_write_scanlines(&jpeg, &pointer, 1);
  }
  jpeg_finish_compress(&jpeg);
  jpeg_destroy_compress(&jpeg);
  FileBytes bytes(buffer, buffer + size);
  free(buffer);
  return bytes;
}

struct PngStyle {
  int colour = PNG_COLOR_TYPE_RGB;  // grey keeps the first channel, a palette is of 256 greys
  int bits = 8;                     // 1, 2 and 4 keep the upper bits of grey
  bool interlaced = false;
};

/// A row in the style's form, before libpng packs it.
inline std::vector<uint8_t> png_row(const Image& image, int64_t y, const PngStyle& style) {
  std::vector<uint8_t> row;
  const auto put = [&](int value) {
    row.push_back(static_cast<uint8_t>(style.bits < 8 ? value >> (8 - style.bits) : value));
    if (style.bits == 16) row.push_back(static_cast<uint8_t>(value));
  };
  for (int64_t x = 0; x < image.width; ++x) {
    const uint8_t* p = image.rgb.data() + 3 * (y * image.width + x);
    for (int c = 0;
         c < (style.colour == PNG_COLOR_TYPE_RGB || style.colour == PNG_COLOR_TYPE_RGBA ? 3 : 1);
         ++c) {
      put(p[c]);
    }
    if (style.colour & PNG_COLOR_MASK_ALPHA) put(7);
  }
  return row;
}

inline FileBytes encode_png(const Image& image, const PngStyle& style = {}) {
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  FileBytes bytes;
  png_set_write_fn(
      png, &bytes,
      [](png_structp p, png_bytep data, size_t size) {
        auto* out = static_cast<FileBytes*>(png_get_io_ptr(p));
        out->insert(out->end(), data, data + size);
      },
      nullptr);
  png_set_IHDR(png, info, static_cast<uint32_t>(image.width), static_cast<uint32_t>(image.height),
               style.bits, style.colour,
               style.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  std::vector<png_color> palette;
  for (int v = 0; v < 256; ++v) {
    const auto grey = static_cast<png_byte>(v);
    palette.push_back({grey, grey, grey});
  }
  if (style.colour == PNG_COLOR_TYPE_PALETTE) png_set_PLTE(png, info, palette.data(), 256);
  png_write_info(png, info);
  png_set_packing(png);
  std::vector<std::vector<uint8_t>> rows;
  std::vector<png_bytep> pointers;
  for (int64_t y = 0; y < image.height; ++y) rows.push_back(png_row(image, y, style));
  for (auto& row : rows) pointers.push_back(row.data());
  png_write_image(png, pointers.data());
  png_write_end(png, nullptr);
  png_destroy_write_struct(&png, &info);
  return bytes;
}

}  // namespace crossbow::data
