#include <unistd.h>

#include <algorithm>

#include "core/error.h"
#include "core/file.h"
#include "data/image.h"
#include "data/parallel.h"
#include "data/source.h"

namespace crossbow::data {
namespace {

constexpr int64_t kMaxSide = 4096;
namespace fs = std::filesystem;

/// What lies in a folder, sorted by name so that machines agree; hidden entries are left out.
std::vector<Path> entries_of(const Path& folder, bool (*wanted)(const fs::directory_entry&)) try {
  std::vector<Path> paths;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.path().filename().native().front() != '.' && wanted(entry)) {
      paths.push_back(entry.path());
    }
  }
  std::sort(paths.begin(), paths.end());
  return paths;
} catch (const fs::filesystem_error& e) {
  fail("cannot read {}: {}", e.path1().string(), e.code().message());
}

bool is_folder(const fs::directory_entry& entry) {
  return entry.is_directory();
}
bool is_file(const fs::directory_entry& entry) {
  return entry.is_regular_file();
}

bool exists_as_folder(const Path& path) {
  return type_of(path) == fs::file_type::directory;
}

Path test_folder(const Path& folder) {
  return exists_as_folder(folder / "test") ? folder / "test" : folder / "val";
}

struct Files {
  std::vector<Path> paths;
  std::vector<int32_t> labels;
};

std::vector<std::string> class_names_of(const Path& folder) {
  std::vector<std::string> names;
  for (const Path& path : entries_of(folder, is_folder)) names.push_back(path.filename().string());
  if (names.empty()) {
    fail("{0} has no folder of a class: put images in {0}/CLASS/", folder.string());
  }
  return names;
}

Files list_files(const Path& folder, const std::vector<std::string>& classes) {
  Files files;
  for (const std::string& name : class_names_of(folder)) {
    const auto at = std::find(classes.begin(), classes.end(), name);
    if (at == classes.end()) {
      fail("{}/{} is of a class that the training set does not have", folder.string(), name);
    }
    for (Path& path : entries_of(folder / name, is_file)) {
      files.paths.push_back(std::move(path));
      files.labels.push_back(static_cast<int32_t>(at - classes.begin()));
    }
  }
  if (files.paths.empty()) {
    fail("{0} holds no images: put JPEG or PNG files in {0}/CLASS/", folder.string());
  }
  return files;
}

/// Decodes each image when it is asked for.
class FileSplit final : public Split {
 public:
  FileSplit(Files files, const Shape& image)
      : Split(std::move(files.labels)), paths_(std::move(files.paths)), image_(image) {}

  Sample sample(int64_t i, uint8_t* scratch) const override {
    read_image(paths_[static_cast<size_t>(i)], image_, scratch);
    return scratch;
  }
  bool in_memory() const override { return false; }

 private:
  std::vector<Path> paths_;
  Shape image_;
};

std::shared_ptr<const Split> decode_all(const Split& split, const Shape& image,
                                        const OpenOptions& options, std::string_view what) {
  const int64_t bytes = image.elements();
  std::vector<uint8_t> buffer(static_cast<size_t>(split.size() * bytes));
  std::vector<int32_t> labels;
  for (int64_t i = 0; i < split.size(); ++i) labels.push_back(split.label(i));
  parallel_for(split.size(), options, what,
               [&](int64_t i) { split.sample(i, buffer.data() + i * bytes); });
  return keep_in_memory(std::move(buffer), 0, bytes, std::move(labels));
}

Shape image_shape(const std::array<int64_t, 2>& wanted, const Path& first) {
  for (const int64_t side : wanted) {
    if (side < 0 || side > kMaxSide) {
      fail_usage("an image size of {} is not in 1 to {}", side, kMaxSide);
    }
  }
  if (wanted[0] > 0 && wanted[1] > 0) return {3, wanted[0], wanted[1]};
  const Image image = read_image(first);
  if (std::max(image.height, image.width) > kMaxSide) {
    fail("{} is {} × {} pixels, which is too large to train on: choose an image size",
         first.string(), image.width, image.height);
  }
  return {3, image.height, image.width};
}

int64_t default_budget() {
  const int64_t memory = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  return std::min(int64_t{4} << 30, memory / 4);
}

std::shared_ptr<const Dataset> open_imagefolder(const Path& folder, const OpenOptions& options) {
  const std::vector<std::string> classes = class_names_of(folder / "train");
  Files train_files = list_files(folder / "train", classes);
  Files test_files = list_files(test_folder(folder), classes);
  const Shape image = image_shape(options.image_size, train_files.paths.front());

  std::shared_ptr<const Split> train = std::make_shared<FileSplit>(std::move(train_files), image);
  std::shared_ptr<const Split> test = std::make_shared<FileSplit>(std::move(test_files), image);
  const int64_t budget = options.memory_budget > 0 ? options.memory_budget : default_budget();
  if ((train->size() + test->size()) * image.elements() <= budget) {
    train = decode_all(*train, image, options, "decoding training images");
    test = decode_all(*test, image, options, "decoding test images");
  }
  Info info{"imagefolder",
            image,
            static_cast<int64_t>(classes.size()),
            classes,
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
                             .found = [](const Path& folder) {
                               return exists_as_folder(folder / "train") &&
                                      exists_as_folder(test_folder(folder));
                             }};
  return source;
}

}  // namespace crossbow::data
