// Parts of pictures, scaled: against the whole picture, and against sums written out.
#include "data/picture.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "data/pictures.h"

namespace crossbow::data {
namespace {

std::vector<uint8_t> fitted(const Image& image, int64_t height, int64_t width) {
  std::vector<uint8_t> chw(static_cast<size_t>(3 * height * width));
  const FileBytes file = encode_png(image);
  PictureCutter cutter;
  cutter.cut(centred(cutter.open(file), height, width), {3, height, width}, chw.data());
  return chw;
}

TEST(Fit, SeparatesChannelsAtTheSameSize) {
  EXPECT_EQ(fitted({1, 2, {1, 2, 3, 4, 5, 6}}, 1, 2), (std::vector<uint8_t>{1, 4, 2, 5, 3, 6}));
}

TEST(Fit, AveragesWhereItShrinks) {
  // A fine chequerboard becomes an even grey: antialiasing.
  Image image{64, 64, {}};
  for (int i = 0; i < 64 * 64; ++i) {
    image.rgb.insert(image.rgb.end(), 3, (i / 64 + i) % 2 ? 200 : 100);
  }
  for (const uint8_t v : fitted(image, 8, 8)) EXPECT_NEAR(v, 150, 1);
}

TEST(Fit, InterpolatesLinearlyWhereItGrows) {
  const Image image{1, 2, {0, 0, 0, 80, 80, 80}};
  const std::vector<uint8_t> out = fitted(image, 2, 4);
  // Centres of output pixels lie at 0.25, 0.75, 1.25, 1.75; those of input pixels at 0.5 and 1.5.
  for (size_t c = 0; c < 3; ++c) {
    for (size_t y = 0; y < 2; ++y) {
      const uint8_t* row = out.data() + c * 8 + y * 4;
      EXPECT_EQ(std::vector<int>(row, row + 4), (std::vector<int>{0, 20, 60, 80}));
    }
  }
}

TEST(Fit, CutsTheMiddleOutOfOtherProportions) {
  // Left and right quarters differ from the middle and must not be seen.
  Image image{4, 8, {}};
  for (int i = 0; i < 32; ++i) {
    const int x = i % 8;
    image.rgb.insert(image.rgb.end(), 3, static_cast<uint8_t>(x < 2 || x >= 6 ? 255 : 50));
  }
  for (const uint8_t v : fitted(image, 4, 4)) EXPECT_EQ(v, 50);
}

TEST(Fit, KeepsAFlatPictureFlatAtAnySize) {
  const Image image{7, 5, std::vector<uint8_t>(7 * 5 * 3, 255)};
  for (const int64_t side : {1, 2, 3, 6, 7, 50}) {
    for (const uint8_t v : fitted(image, side, side)) ASSERT_EQ(v, 255) << side;
  }
}

/// No two neighbours alike, so that a pixel from elsewhere shows.
Image noise(int64_t height, int64_t width) {
  Image image{height, width, {}};
  Rng rng(1, Purpose::synthetic);
  for (int64_t i = 0; i < height * width * 3; ++i) {
    image.rgb.push_back(static_cast<uint8_t>(rng.below(256)));
  }
  return image;
}

std::vector<uint8_t> part(const Image& image, const Region& r) {
  std::vector<uint8_t> rgb;
  for (int64_t y = r.top; y < r.top + r.height; ++y) {
    const auto row = image.rgb.begin() + (y * image.width + r.left) * 3;
    rgb.insert(rgb.end(), row, row + r.width * 3);
  }
  return rgb;
}

std::vector<uint8_t> copy(const PixelView& pixels) {
  std::vector<uint8_t> rgb;
  for (int64_t y = 0; y < pixels.height; ++y) {
    const uint8_t* const row = pixels.rgb + y * pixels.stride;
    rgb.insert(rgb.end(), row, row + pixels.width * 3);
  }
  return rgb;
}

TEST(Jpeg, APartEqualsThatOfTheWholePicture) {
  JpegReader reader;
  Rng rng(2, Purpose::synthetic);
  const auto below = [&](int64_t n) { return int64_t{rng.below(static_cast<uint32_t>(n))}; };
  int parts = 0;
  constexpr std::pair<int, int> kSamplings[] = {{1, 1}, {2, 1}, {2, 2}, {1, 2}, {4, 1}, {1, 4},
                                                {4, 2}, {2, 4}, {3, 1}, {1, 3}, {3, 2}, {2, 3}};
  for (const auto& [across, down] : kSamplings) {
    for (const bool progressive : {false, true}) {
      for (const J_COLOR_SPACE stored : {JCS_YCbCr, JCS_GRAYSCALE, JCS_CMYK}) {
        if (stored == JCS_CMYK && across * down > 4) continue;  // libjpeg allows no such file
        const Image image = noise(90 + below(40), 80 + below(60));
        const FileBytes file = encode_jpeg(
            image, {.stored = stored, .progressive = progressive, .across = across, .down = down});
        for (const int reduction : {1, 2, 4}) {
          const PictureSize size = reader.open(file);
          const int64_t height = (size.height + reduction - 1) / reduction;
          const int64_t width = (size.width + reduction - 1) / reduction;
          const Image whole{height, width, copy(reader.read({0, 0, height, width}, reduction))};
          for (int draw = 0; draw < 30; ++draw, ++parts) {
            Region r;
            r.top = below(height);
            r.left = below(width);
            r.height = 1 + below(height - r.top);
            r.width = 1 + below(width - r.left);
            reader.open(file);
            ASSERT_EQ(copy(reader.read(r, reduction)), part(whole, r))
                << across << "x" << down << " progressive " << progressive << " stored " << stored
                << " reduction " << reduction << ": " << r.height << "x" << r.width << " at "
                << r.top << "," << r.left << " of " << height << "x" << width;
          }
        }
      }
    }
  }
  EXPECT_EQ(parts, (12 * 3 - 4) * 2 * 3 * 30);
}

TEST(Jpeg, AReaderGoesOnAfterADamagedFile) {
  const Image image = noise(40, 40);
  const FileBytes file = encode_jpeg(image);
  FileBytes cut = file;
  cut.resize(cut.size() / 2);
  JpegReader reader;
  const Region whole{0, 0, 40, 40};
  reader.open(cut);
  EXPECT_ERROR(reader.read(whole, 1), "this JPEG is damaged or cut short");
  EXPECT_ERROR(reader.open(std::span(cut).first(10)), "this JPEG is damaged");
  reader.open(file);
  EXPECT_EQ(copy(reader.read(whole, 1)), decode_jpeg(file).rgb);
}

/// Of one channel of a picture, in double, both directions at a time: what Pillow's bilinear filter
/// computes but for its rounding between the directions.
double scaled_at(const Image& image, int channel, const Window& w, int64_t height, int64_t width,
                 int64_t y, int64_t x) {
  const auto shares = [](double begin, double length, int64_t out, int64_t i, int64_t in,
                         double low, double high) {
    const double scale = length / static_cast<double>(out), radius = std::max(1.0, scale);
    const double centre = begin + (static_cast<double>(i) + 0.5) * scale;
    std::vector<double> share(static_cast<size_t>(in));
    double sum = 0;
    for (int64_t k = 0; k < in; ++k) {
      const double at = static_cast<double>(k) + 0.5;
      if (at < low || at > high) continue;
      sum += share[static_cast<size_t>(k)] = std::max(0.0, 1 - std::abs(at - centre) / radius);
    }
    for (double& s : share) s /= sum;
    return share;
  };
  const double far = 1e9;
  const auto down = shares(w.top, w.height, height, y, image.height, w.alone ? w.top : -far,
                           w.alone ? w.top + w.height : far);
  const auto across = shares(w.left, w.width, width, x, image.width, w.alone ? w.left : -far,
                             w.alone ? w.left + w.width : far);
  double sum = 0;
  for (size_t i = 0; i < down.size(); ++i) {
    for (size_t k = 0; k < across.size(); ++k) {
      if (down[i] * across[k] == 0) continue;
      const size_t at = (i * static_cast<size_t>(image.width) + k) * 3;
      sum += down[i] * across[k] * image.rgb[at + static_cast<size_t>(channel)];
    }
  }
  return sum;
}

/// What Pillow 13.0.0 makes of 4 × 5 pixels, by `crop` and `resize`, or by `resize` with a `box`,
/// bilinear.
TEST(Picture, PartsAreScaledAsByPillow) {
  constexpr int64_t kHeight = 37, kWidth = 53;
  Image image{kHeight, kWidth, {}};
  for (int64_t y = 0; y < kHeight; ++y) {
    for (int64_t x = 0; x < kWidth; ++x) {
      for (int64_t c = 0; c < 3; ++c) {
        image.rgb.push_back(static_cast<uint8_t>(7 * x * x + 13 * y * y + 31 * x * y + 50 * c));
      }
    }
  }
  const FileBytes file = encode_png(image);
  const std::pair<Window, std::array<uint8_t, 60>> cases[] = {
      {{0, 0, 37, 53, true},
       {128, 130, 129, 135, 134, 118, 130, 127, 124, 124, 127, 126, 127, 116, 129,
        130, 130, 134, 133, 126, 125, 127, 120, 128, 117, 120, 136, 134, 128, 125,
        137, 137, 132, 124, 131, 131, 130, 134, 132, 130, 131, 129, 122, 119, 115,
        131, 124, 122, 126, 121, 131, 128, 128, 132, 126, 127, 129, 121, 119, 126}},
      {{3, 5, 20, 31, true},
       {136, 137, 116, 124, 130, 121, 125, 137, 123, 151, 123, 126, 143, 123, 113,
        130, 130, 128, 129, 116, 119, 132, 134, 114, 117, 123, 140, 145, 124, 117,
        122, 125, 150, 134, 144, 144, 127, 142, 128, 119, 128, 131, 134, 124, 115,
        132, 136, 134, 132, 96,  119, 117, 99,  122, 126, 143, 133, 128, 122, 133}},
      {{4.5, 10.5, 28, 28, false},
       {128, 133, 120, 132, 138, 125, 141, 129, 121, 115, 126, 122, 126, 125, 117,
        132, 123, 140, 123, 125, 131, 147, 126, 114, 133, 127, 147, 133, 136, 128,
        128, 143, 132, 125, 117, 136, 131, 143, 127, 129, 132, 138, 132, 116, 116,
        121, 113, 119, 122, 130, 124, 134, 135, 122, 143, 128, 129, 118, 121, 121}},
      {{30, 1, 3, 2, true},
       {93,  86,  57,  27,  20,  128, 123, 101, 80,  74,  180, 177, 165, 152, 149,
        231, 230, 226, 221, 220, 143, 136, 107, 77,  70,  178, 173, 151, 130, 124,
        134, 131, 119, 106, 103, 25,  24,  20,  15,  14,  193, 186, 157, 127, 120,
        228, 223, 201, 180, 174, 184, 181, 169, 156, 153, 75,  74,  70,  65,  64}},
  };
  PictureCutter cutter;
  for (const auto& [window, expected] : cases) {
    std::array<uint8_t, 60> chw{};
    cutter.open(file);
    cutter.cut(window, {3, 4, 5}, chw.data());
    for (size_t i = 0; i < chw.size(); ++i) {
      EXPECT_NEAR(chw[i], expected[i], 1) << window.height << " rows, value " << i;
    }
  }
}

TEST(Picture, PartsAreScaledAsTheFilterSays) {
  const Image image = noise(37, 53);
  const FileBytes file = encode_png(image);
  PictureCutter cutter;
  const Window windows[] = {{0, 0, 37, 53, true}, {3, 5, 20, 31, true},
                            {30, 1, 7, 6, true},  {4.5, 10.5, 28, 28, false},
                            {36, 52, 1, 1, true}, {0, 0, 37, 53, false}};
  for (const Window& w : windows) {
    for (const auto& [height, width] : {std::pair<int64_t, int64_t>{8, 8}, {24, 40}, {50, 7}}) {
      std::vector<uint8_t> chw(static_cast<size_t>(3 * height * width));
      cutter.open(file);
      cutter.cut(w, {3, height, width}, chw.data());
      for (int c = 0; c < 3; ++c) {
        for (int64_t y = 0; y < height; ++y) {
          for (int64_t x = 0; x < width; ++x) {
            const auto at = static_cast<size_t>((c * height + y) * width + x);
            ASSERT_NEAR(chw[at], scaled_at(image, c, w, height, width, y, x), 1.1)
                << w.top << "," << w.left << " to " << height << "x" << width << " at " << y << ","
                << x;
          }
        }
      }
    }
  }
}

TEST(Picture, ShrinksAJpegAsItsWholePicture) {
  // Smooth, so that where its decoder halves it, it is the same picture.
  const Image image = gradient(400, 600);
  PictureCutter cutter;
  std::vector<uint8_t> a(3 * 60 * 60), b(a.size());
  for (const auto& [height, width] : {std::pair{250, 250}, {120, 121}, {60, 60}}) {
    const Window window{17, 33, static_cast<double>(height), static_cast<double>(width), true};
    const FileBytes jpeg = encode_jpeg(image), png = encode_png(decode_jpeg(jpeg));
    cutter.open(jpeg);
    cutter.cut(window, {3, 60, 60}, a.data());
    cutter.open(png);
    cutter.cut(window, {3, 60, 60}, b.data());
    for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 2) << height << " at " << i;
  }
}

TEST(Picture, OneChannelIsLuma) {
  const FileBytes file = encode_png({1, 2, {255, 0, 0, 10, 200, 30}});
  PictureCutter cutter;
  std::vector<uint8_t> grey(2);
  cutter.cut(centred(cutter.open(file), 1, 2), {1, 1, 2}, grey.data());
  EXPECT_EQ(grey, (std::vector<uint8_t>{76, 124}));
}

TEST(RandomWindow, HasTheAreaAndTheProportionsOfTorchvisions) {
  Rng rng(3, Purpose::synthetic);
  const PictureSize picture{375, 500};
  double area = 0, wide = 0;
  constexpr int kDraws = 20000;
  for (int i = 0; i < kDraws; ++i) {
    const Window w = random_window(picture, 0.08, rng);
    ASSERT_TRUE(w.alone);
    ASSERT_GE(w.top, 0);
    ASSERT_GE(w.left, 0);
    ASSERT_LE(w.top + w.height, 375);
    ASSERT_LE(w.left + w.width, 500);
    const double share = w.height * w.width / (375 * 500);
    ASSERT_GE(share, 0.08 * 0.98);
    ASSERT_GE(w.width / w.height, 0.74);
    ASSERT_LE(w.width / w.height, 1.35);
    area += share / kDraws;
    wide += (w.width > w.height) / double{kDraws};
  }
  // The mean of 200,000 draws of torchvision.transforms.RandomResizedCrop.get_params.
  EXPECT_NEAR(area, 0.4329, 0.006);
  EXPECT_NEAR(wide, 0.5750, 0.012);
}

TEST(RandomWindow, IsFromTheMiddleWhereNoneFits) {
  Rng rng(3, Purpose::synthetic);
  const Window w = random_window({10, 1000}, 0.5, rng);
  EXPECT_EQ(w.height, 10);
  EXPECT_EQ(w.width, 13);
  EXPECT_EQ(w.left, 493);
}

TEST(Centred, IsAShareOfTheLargestPart) {
  const Window w = centred({375, 500}, 224, 224, 0.875);
  EXPECT_DOUBLE_EQ(w.height, 375 * 0.875);
  EXPECT_DOUBLE_EQ(w.width, 375 * 0.875);
  EXPECT_DOUBLE_EQ(w.left, (500 - 375 * 0.875) / 2);
}

}  // namespace
}  // namespace crossbow::data
