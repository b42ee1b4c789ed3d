#include "data/encode.h"

// jpeglib.h wants <cstdio> before it.
#include <cstdio>

#include <jpeglib.h>
#include <png.h>

#include <csetjmp>
#include <cstdlib>
#include <new>

#include "core/error.h"

namespace crossbow::data {
namespace {

/// As when reading: libjpeg's errors jump, over frames without destructors.
struct JpegWriter {
  jpeg_compress_struct jpeg{};
  jpeg_error_mgr errors{};
  std::jmp_buf jump;
  unsigned char* buffer = nullptr;
  unsigned long size = 0;  // NOLINT: libjpeg's type

  ~JpegWriter() {
    jpeg_destroy_compress(&jpeg);
    std::free(buffer);
  }

  static void on_error(j_common_ptr jpeg) {
    std::longjmp(static_cast<JpegWriter*>(jpeg->client_data)->jump, 1);
  }

  bool write(const Image& image, int quality) {
    if (setjmp(jump)) return false;
    jpeg.err = jpeg_std_error(&errors);
    errors.error_exit = on_error;
    jpeg.client_data = this;
    jpeg_create_compress(&jpeg);
    jpeg_mem_dest(&jpeg, &buffer, &size);
    jpeg.image_width = static_cast<JDIMENSION>(image.width);
    jpeg.image_height = static_cast<JDIMENSION>(image.height);
    jpeg.input_components = 3;
    jpeg.in_color_space = JCS_RGB;
    jpeg_set_defaults(&jpeg);
    jpeg_set_quality(&jpeg, quality, TRUE);
    jpeg_start_compress(&jpeg, TRUE);
    while (jpeg.next_scanline < jpeg.image_height) {
      // The library takes a pointer to what it does not change.
      JSAMPROW row = const_cast<JSAMPROW>(image.rgb.data()) +
                     size_t{jpeg.next_scanline} * jpeg.image_width * 3;
      jpeg_write_scanlines(&jpeg, &row, 1);
    }
    jpeg_finish_compress(&jpeg);
    return true;
  }
};

}  // namespace

std::vector<uint8_t> encode_jpeg(const Image& image, int quality) {
  JpegWriter writer;
  if (!writer.write(image, quality)) fail("libjpeg cannot write a picture");
  return {writer.buffer, writer.buffer + writer.size};
}

std::vector<uint8_t> encode_png(const uint8_t* chw, int64_t channels, int64_t height,
                                int64_t width) {
  std::vector<uint8_t> pixels(static_cast<size_t>(channels * height * width));
  const int64_t plane = height * width;
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t i = 0; i < plane; ++i) {
      pixels[static_cast<size_t>(i * channels + c)] = chw[c * plane + i];
    }
  }
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  png.width = static_cast<png_uint_32>(width);
  png.height = static_cast<png_uint_32>(height);
  png.format = channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  png_alloc_size_t size = 0;
  std::vector<uint8_t> file;
  const bool sized = png_image_write_get_memory_size(png, size, 0, pixels.data(), 0, nullptr) != 0;
  if (sized) {
    file.resize(size);
    png_image_write_to_memory(&png, file.data(), &size, 0, pixels.data(), 0, nullptr);
    file.resize(size);
  }
  if (!sized || PNG_IMAGE_FAILED(png)) fail("libpng cannot write a picture: {}", png.message);
  return file;
}

}  // namespace crossbow::data
