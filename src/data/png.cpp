#include <png.h>

#include <csetjmp>
#include <cstring>

#include "core/error.h"
#include "data/image.h"

namespace crossbow::data {
namespace {

/// As with JPEG: libpng's errors jump, over frames without destructors.
struct Reader {
  explicit Reader(std::span<const uint8_t> file) : left(file) {
    png = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, on_error, on_warning);
    if (png) info = png_create_info_struct(png);
    if (!info) throw std::bad_alloc();
  }
  Reader(const Reader&) = delete;
  ~Reader() { png_destroy_read_struct(&png, &info, nullptr); }

  static void on_error(png_structp png, png_const_charp message) {
    auto& reader = *static_cast<Reader*>(png_get_error_ptr(png));
    std::strncpy(reader.message, message, sizeof reader.message - 1);
    std::longjmp(reader.jump, 1);
  }
  static void on_warning(png_structp, png_const_charp) {}
  static void on_read(png_structp png, png_bytep out, size_t size) {
    auto& reader = *static_cast<Reader*>(png_get_io_ptr(png));
    if (size > reader.left.size()) png_error(png, "the file ends early");
    std::memcpy(out, reader.left.data(), size);
    reader.left = reader.left.subspan(size);
  }

  std::span<const uint8_t> left;
  png_structp png = nullptr;
  png_infop info = nullptr;
  int passes = 1;  // over all rows
  std::jmp_buf jump;
  char message[128] = "";
};

bool read_header(Reader& reader) {
  if (setjmp(reader.jump)) return false;
  png_structp png = reader.png;
  png_set_read_fn(png, &reader, Reader::on_read);
  // Texts, profiles and the like can unpack to any size and change nothing here.
  png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
  png_read_info(png, reader.info);
  return true;
}

bool convert_to_rgb(Reader& reader) {
  if (setjmp(reader.jump)) return false;
  png_structp png = reader.png;
  png_set_scale_16(png);
  png_set_palette_to_rgb(png);
  png_set_expand_gray_1_2_4_to_8(png);
  png_set_gray_to_rgb(png);
  png_set_strip_alpha(png);
  reader.passes = png_set_interlace_handling(png);
  png_read_update_info(png, reader.info);
  return true;
}

bool read_rows(Reader& reader, Image& image) {
  if (setjmp(reader.jump)) return false;
  for (int pass = 0; pass < reader.passes; ++pass) {
    for (int64_t y = 0; y < image.height; ++y) {
      png_read_row(reader.png, image.rgb.data() + y * image.width * 3, nullptr);
    }
  }
  png_read_end(reader.png, nullptr);
  return true;
}

[[noreturn]] void fail_as_damaged(const Reader& reader) {
  fail("this PNG is damaged or cut short ({})", reader.message);
}

}  // namespace

Image decode_png(std::span<const uint8_t> file, int64_t max_pixels) {
  Image image;
  decode_png(file, image, max_pixels);
  return image;
}

void decode_png(std::span<const uint8_t> file, Image& image, int64_t max_pixels) {
  Reader reader(file);
  if (!read_header(reader)) fail_as_damaged(reader);
  image.height = png_get_image_height(reader.png, reader.info);
  image.width = png_get_image_width(reader.png, reader.info);
  if (image.height * image.width > max_pixels) {
    fail("this PNG of {} × {} pixels is too large: at most {} in all", image.width, image.height,
         max_pixels);
  }
  if (!convert_to_rgb(reader)) fail_as_damaged(reader);
  const size_t row_bytes = static_cast<size_t>(image.width) * 3;
  if (png_get_rowbytes(reader.png, reader.info) != row_bytes) fail_as_damaged(reader);
  image.rgb.resize(static_cast<size_t>(image.height) * row_bytes);
  if (!read_rows(reader, image)) fail_as_damaged(reader);
}

}  // namespace crossbow::data
