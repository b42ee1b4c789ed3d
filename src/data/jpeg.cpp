// jpeglib.h wants <cstdio> before it, and jerror.h wants jpeglib.h.
#include <csetjmp>
#include <cstdio>

#include <jpeglib.h>

#include <jerror.h>

#include "core/error.h"
#include "data/image.h"

namespace crossbow::data {
namespace {

// Progressive files repeat passes over the picture; a few bytes could ask for thousands.
constexpr int kMaxScans = 100;

/// libjpeg reports through callbacks that must not return, and C frames lie between them and us: so
/// a jump, over frames without destructors.
struct Reader {
  jpeg_decompress_struct jpeg{};
  jpeg_error_mgr errors{};
  jpeg_progress_mgr progress{};
  std::jmp_buf jump;
  char message[JMSG_LENGTH_MAX] = "";

  ~Reader() { jpeg_destroy_decompress(&jpeg); }

  static Reader& of(j_common_ptr jpeg) { return *static_cast<Reader*>(jpeg->client_data); }

  static void on_error(j_common_ptr jpeg) {
    jpeg->err->format_message(jpeg, of(jpeg).message);
    std::longjmp(of(jpeg).jump, 1);
  }

  /// libjpeg fills what is missing with grey and only warns. Of the warnings, these mean lost
  /// picture; the others (a stray byte between segments, say) occur in good files.
  static void on_message(j_common_ptr jpeg, int level) {
    if (level >= 0) return;
    switch (jpeg->err->msg_code) {
      case JWRN_JPEG_EOF:
      case JWRN_HIT_MARKER:
      case JWRN_HUFF_BAD_CODE:
      case JWRN_ARITH_BAD_CODE:
      case JWRN_MUST_RESYNC:
        on_error(jpeg);
    }
  }

  static void on_progress(j_common_ptr jpeg) {
    if (reinterpret_cast<j_decompress_ptr>(jpeg)->input_scan_number <= kMaxScans) return;
    std::snprintf(of(jpeg).message, JMSG_LENGTH_MAX, "more than %d scans", kMaxScans);
    std::longjmp(of(jpeg).jump, 1);
  }

  void open(std::span<const uint8_t> file) {
    jpeg.err = jpeg_std_error(&errors);
    errors.error_exit = on_error;
    errors.emit_message = on_message;
    jpeg.client_data = this;  // which the call keeps, and an error in it needs
    jpeg_create_decompress(&jpeg);
    progress.progress_monitor = on_progress;
    jpeg.progress = &progress;
    jpeg_mem_src(&jpeg, file.data(), file.size());
  }
};

bool is_cmyk(const jpeg_decompress_struct& jpeg) {
  return jpeg.jpeg_color_space == JCS_CMYK || jpeg.jpeg_color_space == JCS_YCCK;
}

/// False with a message when libjpeg gives up.
bool read_header(Reader& reader, std::span<const uint8_t> file) {
  if (setjmp(reader.jump)) return false;
  reader.open(file);
  jpeg_read_header(&reader.jpeg, TRUE);
  reader.jpeg.out_color_space = is_cmyk(reader.jpeg) ? JCS_CMYK : JCS_RGB;
  jpeg_calc_output_dimensions(&reader.jpeg);
  return true;
}

/// `rgb` has room for the picture, and `cmyk`, for a file in those colours, for a row of them.
bool read_rows(Reader& reader, uint8_t* rgb, uint8_t* cmyk) {
  if (setjmp(reader.jump)) return false;
  jpeg_decompress_struct& jpeg = reader.jpeg;
  jpeg_start_decompress(&jpeg);
  while (jpeg.output_scanline < jpeg.output_height) {
    uint8_t* out = rgb + size_t{jpeg.output_scanline} * jpeg.output_width * 3;
    JSAMPROW row = cmyk ? cmyk : out;
    jpeg_read_scanlines(&jpeg, &row, 1);
    if (!cmyk) continue;
    // Adobe's files hold the ink inverted: 255 is none.
    const int flip = jpeg.saw_Adobe_marker ? 0 : 255;
    for (size_t x = 0; x < jpeg.output_width; ++x) {
      const int black = cmyk[4 * x + 3] ^ flip;
      for (size_t c = 0; c < 3; ++c) {
        out[3 * x + c] = static_cast<uint8_t>(((cmyk[4 * x + c] ^ flip) * black + 127) / 255);
      }
    }
  }
  jpeg_finish_decompress(&jpeg);
  return true;
}

}  // namespace

Image decode_jpeg(std::span<const uint8_t> file, int64_t max_pixels) {
  Reader reader;
  if (!read_header(reader, file)) fail("this JPEG is damaged ({})", reader.message);
  const jpeg_decompress_struct& jpeg = reader.jpeg;
  Image image{jpeg.output_height, jpeg.output_width, {}};
  if (image.height * image.width > max_pixels) {
    fail("this JPEG of {} × {} pixels is too large: at most {} in all", image.width, image.height,
         max_pixels);
  }
  image.rgb.resize(static_cast<size_t>(image.height * image.width * 3));
  std::vector<uint8_t> cmyk(is_cmyk(jpeg) ? static_cast<size_t>(image.width) * 4 : 0);
  if (!read_rows(reader, image.rgb.data(), cmyk.empty() ? nullptr : cmyk.data())) {
    fail("this JPEG is damaged or cut short ({})", reader.message);
  }
  return image;
}

}  // namespace crossbow::data
