// jpeglib.h wants <cstdio> before it, and jerror.h wants jpeglib.h.
#include <csetjmp>
#include <cstdio>

#include <jpeglib.h>

#include <jerror.h>

#include <algorithm>

#include "core/error.h"
#include "data/image.h"

namespace crossbow::data {
namespace {

// Progressive files repeat passes over the picture; a few bytes could ask for thousands.
constexpr int kMaxScans = 100;

bool is_cmyk(const jpeg_decompress_struct& jpeg) {
  return jpeg.jpeg_color_space == JCS_CMYK || jpeg.jpeg_color_space == JCS_YCCK;
}

PictureSize size_of(const jpeg_decompress_struct& jpeg) {
  return {jpeg.output_height, jpeg.output_width};
}

}  // namespace

/// libjpeg reports through callbacks that must not return, and C frames lie between them and us: so
/// a jump, over frames without destructors.
struct JpegReader::State {
  jpeg_decompress_struct jpeg{};
  jpeg_error_mgr errors{};
  jpeg_progress_mgr progress{};
  std::jmp_buf jump;
  char message[JMSG_LENGTH_MAX] = "";
  std::vector<uint8_t> pixels;  // it only grows

  ~State() { jpeg_destroy_decompress(&jpeg); }

  static State& of(j_common_ptr jpeg) { return *static_cast<State*>(jpeg->client_data); }

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

  /// False with a message when libjpeg gives up, as are those below.
  bool create() {
    if (setjmp(jump)) return false;
    jpeg.err = jpeg_std_error(&errors);
    errors.error_exit = on_error;
    errors.emit_message = on_message;
    jpeg.client_data = this;  // which the call keeps, and an error in it needs
    jpeg_create_decompress(&jpeg);
    progress.progress_monitor = on_progress;
    jpeg.progress = &progress;
    return true;
  }

  bool read_header(std::span<const uint8_t> file) {
    if (setjmp(jump)) return false;
    jpeg_abort_decompress(&jpeg);  // of the picture before
    jpeg_mem_src(&jpeg, file.data(), file.size());
    jpeg_read_header(&jpeg, TRUE);
    jpeg.out_color_space = is_cmyk(jpeg) ? JCS_CMYK : JCS_RGB;
    jpeg_calc_output_dimensions(&jpeg);
    return true;
  }

  bool reduce(int reduction) {
    if (setjmp(jump)) return false;
    jpeg.scale_num = 1;
    jpeg.scale_denom = static_cast<unsigned>(reduction);
    jpeg_calc_output_dimensions(&jpeg);
    return true;
  }

  /// Columns that are decoded, of which the region is a part.
  struct Columns {
    JDIMENSION first = 0, width = 0;
  };

  /// What is decoded around the region, as upsampling looks at neighbours, is a unit of the file
  /// (an MCU) on each side.
  bool start(const Region& region, Columns& columns) {
    if (setjmp(jump)) return false;
    jpeg_start_decompress(&jpeg);
    columns = {0, jpeg.output_width};
    // libjpeg-turbo 2.1 miscounts columns of reduced pictures whose colours are 4 times coarser.
    const bool miscounts =
        jpeg.scale_denom > 1 && std::max(jpeg.max_h_samp_factor, jpeg.max_v_samp_factor) > 2;
    if (region.width < int64_t{jpeg.output_width} && !miscounts) {
      const auto left = static_cast<JDIMENSION>(region.left);
      const JDIMENSION unit = unit_of(jpeg.max_h_samp_factor);
      const JDIMENSION right = left + static_cast<JDIMENSION>(region.width) + unit;
      columns.first = left - std::min(left, unit);
      columns.width = std::min(right, jpeg.output_width) - columns.first;
      jpeg_crop_scanline(&jpeg, &columns.first, &columns.width);
    }
    // It skips to the borders of units only without an error in the rows that follow.
    const auto top = static_cast<JDIMENSION>(region.top);
    const JDIMENSION unit = unit_of(jpeg.max_v_samp_factor);
    if (top / unit > 1) jpeg_skip_scanlines(&jpeg, (top / unit - 1) * unit);
    return true;
  }

  /// Into the region's rows, which are `stride` bytes apart; those before go where the first will
  /// be.
  bool read_rows(const Region& region, uint8_t* rows, size_t stride) {
    if (setjmp(jump)) return false;
    const auto top = static_cast<JDIMENSION>(region.top);
    const auto end = static_cast<JDIMENSION>(region.top + region.height);
    while (jpeg.output_scanline < end) {
      const JDIMENSION y = jpeg.output_scanline;
      JSAMPROW row = rows + (y < top ? 0 : y - top) * stride;
      jpeg_read_scanlines(&jpeg, &row, 1);
    }
    if (jpeg.output_scanline == jpeg.output_height) jpeg_finish_decompress(&jpeg);
    return true;
  }

  JDIMENSION unit_of(int blocks) const {
    return static_cast<JDIMENSION>(jpeg.min_DCT_scaled_size * blocks);
  }

  /// In place: a pixel becomes shorter.
  /// Adobe's files hold the ink inverted: 255 is none.
  void multiply_out(const uint8_t* cmyk, size_t width, uint8_t* rgb) const {
    const int flip = jpeg.saw_Adobe_marker ? 0 : 255;
    for (size_t x = 0; x < width; ++x) {
      const int black = cmyk[4 * x + 3] ^ flip;
      for (size_t c = 0; c < 3; ++c) {
        rgb[3 * x + c] = static_cast<uint8_t>(((cmyk[4 * x + c] ^ flip) * black + 127) / 255);
      }
    }
  }
};

JpegReader::JpegReader() : state_(std::make_unique<State>()) {
  if (!state_->create()) fail("libjpeg cannot be used ({})", state_->message);
}

JpegReader::~JpegReader() = default;
JpegReader::JpegReader(JpegReader&&) noexcept = default;

PictureSize JpegReader::open(std::span<const uint8_t> file, int64_t max_pixels) {
  if (!state_->read_header(file)) fail("this JPEG is damaged ({})", state_->message);
  const PictureSize size = size_of(state_->jpeg);
  if (size.height * size.width > max_pixels) {
    fail("this JPEG of {} × {} pixels is too large: at most {} in all", size.width, size.height,
         max_pixels);
  }
  return size;
}

PixelView JpegReader::read(const Region& region, int reduction) {
  State& s = *state_;
  State::Columns columns;
  if (!s.reduce(reduction) || !s.start(region, columns)) {
    fail("this JPEG is damaged ({})", s.message);
  }
  const auto height = static_cast<size_t>(region.height);
  const size_t stride = size_t{columns.width} * static_cast<size_t>(s.jpeg.output_components);
  s.pixels.resize(std::max(s.pixels.size(), height * stride));
  if (!s.read_rows(region, s.pixels.data(), stride)) {
    fail("this JPEG is damaged or cut short ({})", s.message);
  }
  if (is_cmyk(s.jpeg)) {
    for (size_t y = 0; y < height; ++y) {
      uint8_t* const row = s.pixels.data() + y * stride;
      s.multiply_out(row, columns.width, row);
    }
  }
  return {s.pixels.data() + (region.left - int64_t{columns.first}) * 3,
          static_cast<int64_t>(stride), region.height, region.width};
}

Image decode_jpeg(std::span<const uint8_t> file, int64_t max_pixels) {
  JpegReader reader;
  const PictureSize size = reader.open(file, max_pixels);
  const PixelView pixels = reader.read({0, 0, size.height, size.width}, 1);
  Image image{size.height, size.width, {}};
  image.rgb.reserve(static_cast<size_t>(size.height * size.width * 3));
  for (int64_t y = 0; y < size.height; ++y) {
    const uint8_t* const row = pixels.rgb + y * pixels.stride;
    image.rgb.insert(image.rgb.end(), row, row + size.width * 3);
  }
  return image;
}

}  // namespace crossbow::data
