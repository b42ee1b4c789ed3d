#include <algorithm>

#include "core/error.h"
#include "core/file.h"
#include "core/machine.h"
#include "data/class_folders.h"
#include "data/image.h"
#include "data/parallel.h"
#include "data/picture.h"
#include "data/picture_split.h"
#include "data/source.h"

namespace crossbow::data {
namespace {

constexpr int64_t kMaxSide = 4096;

std::shared_ptr<const Split> decode_all(const Split& split, const Shape& image,
                                        const OpenOptions& options, std::string_view what) {
  const int64_t bytes = image.elements();
  std::vector<uint8_t> buffer(static_cast<size_t>(split.size() * bytes));
  std::vector<int32_t> labels;
  for (int64_t i = 0; i < split.size(); ++i) labels.push_back(split.label(i));
  parallel_for(split.size(), options, what, [&](int64_t i) {
    thread_local std::vector<uint8_t> file;
    thread_local PictureCutter cutter;
    const Sample sample = split.sample(i, &file);
    naming_sample(split, i, [&] {
      const PictureSize size = cutter.open(std::get<EncodedPicture>(sample).file);
      cutter.cut(centred(size, image[1], image[2]), image, buffer.data() + i * bytes);
    });
  });
  return keep_in_memory(std::move(buffer), 0, bytes, std::move(labels));
}

Shape image_shape(const std::array<int64_t, 2>& wanted, const Split& split) {
  for (const int64_t side : wanted) {
    if (side < 0 || side > kMaxSide) {
      fail_usage("an image size of {} is not in 1 to {}", side, kMaxSide);
    }
  }
  if (wanted[0] > 0 && wanted[1] > 0) return {3, wanted[0], wanted[1]};
  std::vector<uint8_t> file;
  const Sample first = split.sample(0, &file);
  PictureCutter cutter;
  const PictureSize size =
      naming_sample(split, 0, [&] { return cutter.open(std::get<EncodedPicture>(first).file); });
  if (std::max(size.height, size.width) > kMaxSide) {
    fail("{} is {} × {} pixels, which is too large to train on: choose an image size",
         split.name_of(0), size.width, size.height);
  }
  return {3, size.height, size.width};
}

int64_t default_budget() {
  const auto memory = static_cast<int64_t>(memory_mb() * (1 << 20));
  return std::min(int64_t{4} << 30, memory / 4);
}

std::shared_ptr<const Dataset> open_imagefolder(const Path& folder, const OpenOptions& options) {
  PictureIndex index = list_class_folders(folder);
  auto train = picture_split(folder, Container::files, std::move(index.train));
  auto test = picture_split(folder, Container::files, std::move(index.test));
  const Shape image = image_shape(options.image_size, *train);
  const int64_t budget = options.memory_budget > 0 ? options.memory_budget : default_budget();
  if (!options.keep_encoded && (train->size() + test->size()) * image.elements() <= budget) {
    train = decode_all(*train, image, options, "decoding training images");
    test = decode_all(*test, image, options, "decoding test images");
  }
  Info info{"imagefolder",
            image,
            std::ssize(index.classes),
            index.classes,
            {{0.5f, 0.5f, 0.5f}, {0.5f, 0.5f, 0.5f}}};
  return std::make_shared<Dataset>(Dataset{std::move(info), std::move(train), std::move(test)});
}

}  // namespace

const Source& imagefolder_source() {
  static const Source source{.entry = {.name = "imagefolder",
                                       .about = "pictures of your own, a folder for each class",
                                       .source = "JPEG or PNG files of your own",
                                       .files = {"train/CLASS/*", "test/CLASS/* (or val/CLASS/*)"}},
                             .open = open_imagefolder,
                             .found = has_class_folders};
  return source;
}

}  // namespace crossbow::data
