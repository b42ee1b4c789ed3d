#include "data/digits.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "core/error.h"
#include "core/file.h"
#include "data/parallel.h"
#include "data/source.h"

namespace crossbow::data {
namespace {

constexpr int64_t kTrain = 60000, kTest = 10000, kCount = kTrain + kTest;
constexpr int64_t kClasses = 10;
// The cache file: this line, whose number goes up whenever the drawing changes, the CRC-32 of the
// rest (little-endian), then a label byte for each image, then the images; training set first.
constexpr std::string_view kMagic = "crossbow digits v01\n";
constexpr size_t kHeader = 24;
constexpr size_t kFileSize = kHeader + kCount * (1 + kDigitPixels);

/// Empty if there is nowhere to keep it.
Path cache_path() {
  const Path folder = cache_folder();
  return folder.empty() ? folder : folder / "digits-1.bin";
}

std::array<uint8_t, kHeader> header_for(Bytes body) {
  const auto crc = static_cast<uint32_t>(crc32_z(0, body.data(), body.size()));
  std::array<uint8_t, kHeader> header{};
  std::copy(kMagic.begin(), kMagic.end(), header.begin());
  for (size_t b = 0; b < 4; ++b) header[kMagic.size() + b] = static_cast<uint8_t>(crc >> 8 * b);
  return header;
}

/// The cache file's bytes, or none if it is missing or not what was written.
std::vector<uint8_t> load(const Path& path) try {
  std::vector<uint8_t> file = read_file(path, kFileSize);
  if (file.size() != kFileSize) return {};
  const auto header = header_for(Bytes(file).subspan(kHeader));
  if (!std::equal(header.begin(), header.end(), file.begin())) return {};
  return file;
} catch (const Error&) {
  return {};
}

std::vector<uint8_t> generate(const OpenOptions& options) {
  std::vector<uint8_t> file(kFileSize);
  uint8_t* labels = file.data() + kHeader;
  uint8_t* images = labels + kCount;
  parallel_for(kCount, options, "drawing digits", [&](int64_t i) {
    uint8_t* image = images + i * kDigitPixels;
    labels[i] = static_cast<uint8_t>(i < kTrain ? draw_digit(DigitSplit::train, i, image)
                                                : draw_digit(DigitSplit::test, i - kTrain, image));
  });
  return file;
}

/// A cache that cannot be written costs the next run a second, not this one its life.
void store(const Path& path, std::vector<uint8_t>& file) try {
  const Bytes body = Bytes(file).subspan(kHeader);
  make_folder(path.parent_path());
  write_file_atomically(path, {header_for(body), body});
} catch (const Error&) {
}

std::shared_ptr<const Dataset> open_digits(const Path&, const OpenOptions& options) {
  const Path cache = cache_path();
  std::vector<uint8_t> file;
  if (!cache.empty()) file = load(cache);
  if (file.empty()) {
    file = generate(options);
    if (!cache.empty()) store(cache, file);
  }
  const auto owner = std::make_shared<const std::vector<uint8_t>>(std::move(file));
  const uint8_t* labels = owner->data() + kHeader;
  const uint8_t* images = labels + kCount;
  const auto split = [&](int64_t first, int64_t count) {
    return std::make_shared<MemorySplit>(
        owner, images + first * kDigitPixels, kDigitPixels,
        std::vector<int32_t>(labels + first, labels + first + count));
  };
  Info info{"digits", {1, kDigitSide, kDigitSide}, kClasses, numbered_classes(kClasses), {}};
  return std::make_shared<Dataset>(
      Dataset{std::move(info), split(0, kTrain), split(kTrain, kTest)});
}

}  // namespace

const Source& digits_source() {
  static const Source source{.entry = {.name = "digits",
                                       .about = "digits drawn by the program",
                                       .image = {1, kDigitSide, kDigitSide},
                                       .classes = kClasses,
                                       .train = kTrain,
                                       .test = kTest},
                             .open = open_digits,
                             .found = [](const Path&) { return true; }};
  return source;
}

}  // namespace crossbow::data
