#include "data/cifar.h"

#include <sstream>

#include "core/error.h"
#include "core/file.h"
#include "data/source.h"

namespace crossbow::data {
namespace {

std::string where(std::string_view name) {
  return fmt::format(
      "`crossbow data fetch {}` gets it: the binary version from "
      "www.cs.toronto.edu/~kriz/cifar.html",
      name);
}

constexpr const char* kInner10 = "cifar-10-batches-bin";
constexpr const char* kInner100 = "cifar-100-binary";

/// The archives unpack to a folder of their own: both it and its parent are accepted.
Path folder_of_files(const Path& folder, const Source& source, const char* inner) {
  return has_files(folder, source.entry.files) ? folder : folder / inner;
}

std::shared_ptr<const Split> read_part(const Path& folder, const std::vector<std::string>& names,
                                       int64_t classes) {
  CifarImages images;
  for (const std::string& name : names) {
    const Path path = find_file(folder, name);
    const std::vector<uint8_t> bytes = read_file(path, size_t{1} << 30);
    naming_file(path, [&] { parse_cifar(bytes, classes, images); });
  }
  return keep_in_memory(std::move(images.pixels), 0, kCifarPixels, std::move(images.labels));
}

std::shared_ptr<const Dataset> open_cifar(const Path& folder, const Source& source,
                                          std::vector<std::string> class_names) {
  const CatalogueEntry& entry = source.entry;
  // The test file is the last.
  std::vector<std::string> train(entry.files.begin(), entry.files.end() - 1);
  Info info{entry.name,
            entry.image,
            entry.classes,
            std::move(class_names),
            {{0.5f, 0.5f, 0.5f}, {0.5f, 0.5f, 0.5f}}};
  return std::make_shared<Dataset>(Dataset{std::move(info), read_part(folder, train, entry.classes),
                                           read_part(folder, {entry.files.back()}, entry.classes)});
}

/// The archive's list of names, or numbers where it is missing.
std::vector<std::string> read_class_names(const Path& path, int64_t classes) {
  if (type_of(path) == std::filesystem::file_type::not_found) return numbered_classes(classes);
  std::vector<std::string> names;
  std::istringstream file(read_text_file(path, 1 << 20));
  for (std::string line; std::getline(file, line);) {
    if (!line.empty()) names.push_back(line);
  }
  return static_cast<int64_t>(names.size()) == classes ? names : numbered_classes(classes);
}

}  // namespace

void parse_cifar(std::span<const uint8_t> file, int64_t classes, CifarImages& images) {
  const auto label_bytes = static_cast<size_t>(cifar_label_bytes(classes));
  const size_t record = label_bytes + kCifarPixels;
  const size_t count = file.size() / record;
  if (count == 0 || count * record != file.size()) {
    fail("this file of {} bytes is not a whole number of records of {} bytes: get it again",
         file.size(), record);
  }
  for (size_t i = 0; i < count; ++i) {
    const int label = file[i * record + label_bytes - 1];
    if (label >= classes) {
      fail(
          "record {} has label {}, but there are {} classes: is it the binary version of another "
          "set?",
          i, label, classes);
    }
  }
  images.labels.reserve(images.labels.size() + count);
  images.pixels.reserve(images.pixels.size() + count * kCifarPixels);
  for (size_t i = 0; i < count; ++i) {
    const auto bytes = file.subspan(i * record, record);
    images.labels.push_back(bytes[label_bytes - 1]);
    images.pixels.insert(images.pixels.end(), bytes.begin() + static_cast<ptrdiff_t>(label_bytes),
                         bytes.end());
  }
}

const Source& cifar10_source() {
  static const Source source{
      .entry = {.name = "cifar10",
                .about = "small photographs of ten kinds",
                .image = {3, 32, 32},
                .classes = 10,
                .train = 50000,
                .test = 10000,
                .source = where("cifar10"),
                .files = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                          "data_batch_4.bin", "data_batch_5.bin", "test_batch.bin"}},
      .open =
          [](const Path& folder, const OpenOptions&) {
            const Source& self = cifar10_source();
            return open_cifar(folder_of_files(folder, self, kInner10), self,
                              {"airplane", "automobile", "bird", "cat", "deer", "dog", "frog",
                               "horse", "ship", "truck"});
          },
      .found =
          [](const Path& folder) {
            const Source& self = cifar10_source();
            return has_files(folder_of_files(folder, self, kInner10), self.entry.files);
          }};
  return source;
}

const Source& cifar100_source() {
  static const Source source{
      .entry = {.name = "cifar100",
                .about = "small photographs of a hundred kinds",
                .image = {3, 32, 32},
                .classes = 100,
                .train = 50000,
                .test = 10000,
                .source = where("cifar100"),
                .files = {"train.bin", "test.bin"}},
      .open =
          [](const Path& folder, const OpenOptions&) {
            const Source& self = cifar100_source();
            const Path files = folder_of_files(folder, self, kInner100);
            return open_cifar(files, self, read_class_names(files / "fine_label_names.txt", 100));
          },
      .found =
          [](const Path& folder) {
            const Source& self = cifar100_source();
            return has_files(folder_of_files(folder, self, kInner100), self.entry.files);
          }};
  return source;
}

}  // namespace crossbow::data
