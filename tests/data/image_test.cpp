#include "data/image.h"

#include <algorithm>
#include <cmath>

#include "data/pictures.h"

namespace crossbow::data {
namespace {

/// Largest difference between two pictures; -1 if their sizes differ.
int difference(const Image& a, const Image& b) {
  if (a.height != b.height || a.width != b.width || a.rgb.size() != b.rgb.size()) return -1;
  int most = 0;
  for (size_t i = 0; i < a.rgb.size(); ++i) most = std::max(most, std::abs(a.rgb[i] - b.rgb[i]));
  return most;
}

/// As it should come back from a file that keeps only the first channel.
Image grey_of(Image image, int mask = 255) {
  for (size_t i = 0; i < image.rgb.size(); ++i) {
    const int grey = image.rgb[i - i % 3] & mask;
    image.rgb[i] = static_cast<uint8_t>(grey);
  }
  return image;
}

TEST(Jpeg, DecodesColourAndGreyBaselineAndProgressive) {
  const Image image = gradient(24, 40);
  EXPECT_LE(difference(decode_jpeg(encode_jpeg(image)), image), 8);
  EXPECT_LE(difference(decode_jpeg(encode_jpeg(image, {.progressive = true})), image), 8);
  EXPECT_LE(difference(decode_jpeg(encode_jpeg(image, {.stored = JCS_GRAYSCALE})), grey_of(image)),
            4);
}

TEST(Jpeg, MultipliesCmykOut) {
  const Image image = gradient(16, 16);
  for (const bool adobe : {true, false}) {
    const Image decoded = decode_jpeg(encode_jpeg(image, {.stored = JCS_CMYK, .adobe = adobe}));
    EXPECT_LE(difference(decoded, image), 8) << "adobe " << adobe;
  }
}

TEST(Jpeg, RefusesWhatIsCutShort) {
  const FileBytes whole = encode_jpeg(gradient(32, 32));
  for (size_t size = 0; size + 2 < whole.size(); size += 7) {
    const FileBytes cut(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(size));
    EXPECT_ERROR(decode_jpeg(cut), "this JPEG is damaged") << size;
  }
}

TEST(Jpeg, RefusesTooManyPixelsFromTheHeader) {
  EXPECT_ERROR(decode_jpeg(encode_jpeg(gradient(20, 30)), 599), "30 × 20 pixels is too large");
  EXPECT_EQ(decode_jpeg(encode_jpeg(gradient(20, 30)), 600).width, 30);
}

TEST(Jpeg, RefusesEndlessScans) {
  // The last scan of a progressive file, over and over.
  FileBytes file = encode_jpeg(gradient(8, 8), {.progressive = true});
  size_t scan = file.size();
  while (!(file[scan - 2] == 0xFF && file[scan - 1] == 0xDA)) --scan;
  const FileBytes last(file.begin() + static_cast<ptrdiff_t>(scan) - 2, file.end() - 2);
  file.erase(file.end() - 2, file.end());
  for (int i = 0; i < 300; ++i) file.insert(file.end(), last.begin(), last.end());
  EXPECT_ERROR(decode_jpeg(file), "scans");
}

TEST(Png, DecodesEveryColourTypeToRgb) {
  const Image image = gradient(11, 13);
  EXPECT_EQ(difference(decode_png(encode_png(image)), image), 0);
  EXPECT_EQ(difference(decode_png(encode_png(image, {.interlaced = true})), image), 0);
  EXPECT_EQ(difference(decode_png(encode_png(image, {.colour = PNG_COLOR_TYPE_RGBA})), image), 0);
  EXPECT_EQ(difference(decode_png(encode_png(image, {.bits = 16})), image), 0);
  for (const int colour :
       {PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_PALETTE}) {
    EXPECT_EQ(difference(decode_png(encode_png(image, {.colour = colour})), grey_of(image)), 0)
        << colour;
  }
}

TEST(Png, StretchesFewBitsToTheFullRange) {
  const Image image = gradient(16, 16);
  for (const int bits : {1, 2, 4}) {
    const Image decoded =
        decode_png(encode_png(image, {.colour = PNG_COLOR_TYPE_GRAY, .bits = bits}));
    const int levels = (1 << bits) - 1;
    for (size_t i = 0; i < decoded.rgb.size(); ++i) {
      ASSERT_EQ(decoded.rgb[i], (image.rgb[i - i % 3] >> (8 - bits)) * 255 / levels) << bits;
    }
  }
}

TEST(Png, RefusesWhatIsCutShortOrAltered) {
  const FileBytes whole = encode_png(gradient(16, 16));
  for (size_t size = 0; size < whole.size(); size += 5) {
    const FileBytes cut(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(size));
    EXPECT_ERROR(decode_png(cut), "this PNG is damaged or cut short") << size;
  }
  FileBytes altered = whole;
  altered[whole.size() / 2] ^= 1;
  EXPECT_ERROR(decode_png(altered), "this PNG is damaged");
}

TEST(Png, RefusesTooManyPixelsFromTheHeader) {
  EXPECT_ERROR(decode_png(encode_png(gradient(20, 30)), 599), "30 × 20 pixels is too large");
}

TEST(Picture, IsToldByItsContent) {
  EXPECT_EQ(decode_image(encode_png(gradient(3, 4))).width, 4);
  EXPECT_EQ(decode_image(encode_jpeg(gradient(3, 4))).width, 4);
  EXPECT_ERROR(decode_image(FileBytes{'G', 'I', 'F', '8'}), "neither a JPEG nor a PNG");
  EXPECT_ERROR(decode_image({}), "neither a JPEG nor a PNG");
}

}  // namespace
}  // namespace crossbow::data
