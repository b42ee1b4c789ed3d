#include "data/image.h"

#include <cstring>
#include <string_view>

#include "core/error.h"

namespace crossbow::data {
namespace {

bool begins_with(std::span<const uint8_t> file, std::string_view magic) {
  return file.size() >= magic.size() && std::memcmp(file.data(), magic.data(), magic.size()) == 0;
}

}  // namespace

bool is_jpeg(std::span<const uint8_t> file) {
  return begins_with(file, "\xFF\xD8\xFF");
}

void expect_png(std::span<const uint8_t> file) {
  if (begins_with(file, "\x89PNG\r\n\x1A\n")) return;
  fail("this is neither a JPEG nor a PNG: convert it or take it away");
}

Image decode_image(std::span<const uint8_t> file) {
  if (is_jpeg(file)) return decode_jpeg(file);
  expect_png(file);
  return decode_png(file);
}

}  // namespace crossbow::data
