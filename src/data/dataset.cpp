#include "data/dataset.h"

#include <fmt/ranges.h>

#include <cstdlib>

#include "core/error.h"
#include "core/nearest.h"
#include "core/planned.h"
#include "core/text.h"
#include "data/conversion.h"
#include "data/memory.h"
#include "data/source.h"

namespace crossbow::data {
namespace {

std::vector<const Source*> sources() {
  std::vector<const Source*> all{
      &digits_source(),      &mnist_source(),    &cifar10_source(),        &cifar100_source(),
      &imagefolder_source(), &imagenet_source(), &tfrecord_source(),       &tar_source(),
      &libsvm_source(),      &ratings_source(),  &planted_ratings_source()};
  const std::vector<const Source*> planted = planted_sources();
  all.insert(all.end(), planted.begin(), planted.end());
  return all;
}

const Source& find_source(std::string_view name) {
  if (name == kMemory) {
    fail_usage("the data set '{}' is one that a program holds: use it there, or name another",
               kMemory);
  }
  std::vector<std::string_view> names;
  for (const Source* source : sources()) {
    if (source->entry.name == name) return *source;
    names.push_back(source->entry.name);
  }
  refuse_planned(name, name);
  fail_usage("there is no data set '{}' among {}{}", name, fmt::join(names, ", "),
             did_you_mean(name, names));
}

bool is_generated(const Source& source) {
  return source.entry.source.empty();
}

bool has_default_folder(const Source& source) {
  return !is_generated(source) && source.entry.image.rank() > 0;
}

bool is_found(const Source& source, const Path& folder) {
  try {
    return source.found(folder);
  } catch (const Error&) {
    return false;  // opening the set says why
  }
}

Path folder_for(const Source& source, std::string_view spec, size_t colon) {
  const std::string& name = source.entry.name;
  const std::string_view what = source.entry.takes == "FILE" ? "file" : "folder";
  if (colon == spec.npos) {
    if (is_generated(source)) return {};
    if (has_default_folder(source)) return default_folder(name);
    fail_usage("'{0}' needs a {1}, as in {0}:{2}", name, what, source.entry.takes);
  }
  if (is_generated(source)) fail_usage("'{}' is generated and takes no folder", name);
  if (colon + 1 == spec.size()) fail_usage("'{}' names no {} after the colon", spec, what);
  return Path(spec.substr(colon + 1));
}

}  // namespace

std::shared_ptr<const Dataset> open_dataset(std::string_view spec, const OpenOptions& options) {
  const size_t colon = spec.find(':');
  const Source& source = find_source(spec.substr(0, colon));
  const Path folder = folder_for(source, spec, colon);
  if (source.entry.takes == "DIR") expect_converted(folder);
  if (!source.found(folder)) {
    fail("{} does not hold {}: it should have {} ({})", folder.string(), source.entry.name,
         fmt::join(source.entry.files, ", "), source.entry.source);
  }
  return source.open(folder, options);
}

Path default_folder(std::string_view name) {
  const char* root = std::getenv("CROSSBOW_DATA");
  return Path(root && *root ? root : "data") / name;
}

std::vector<CatalogueEntry> catalogue() {
  std::vector<CatalogueEntry> entries;
  for (const Source* source : sources()) {
    CatalogueEntry entry = source->entry;
    if (has_default_folder(*source)) entry.folder = default_folder(entry.name).string();
    const bool opens_as_it_stands = is_generated(*source) || !entry.folder.empty();
    entry.found = opens_as_it_stands && is_found(*source, entry.folder);
    entries.push_back(std::move(entry));
  }
  return entries;
}

const CatalogueEntry& catalogue_entry(std::string_view spec) {
  return find_source(spec.substr(0, spec.find(':'))).entry;
}

bool has_pixels(const Split& split) {
  if (!split.in_memory()) return true;
  return split.size() > 0 && std::holds_alternative<const uint8_t*>(split.sample(0, nullptr));
}

std::shared_ptr<const Split> keep_in_memory(std::vector<uint8_t> buffer, size_t offset,
                                            int64_t image_bytes, std::vector<int32_t> labels) {
  auto owner = std::make_shared<const std::vector<uint8_t>>(std::move(buffer));
  const uint8_t* first = owner->data() + offset;
  return std::make_shared<MemorySplit>(std::move(owner), first, image_bytes, std::move(labels));
}

namespace {

class RowSplit final : public Split {
 public:
  RowSplit(Rows rows, Labels labels) : Split(std::move(labels)), rows_(std::move(rows)) {}

  Sample sample(int64_t i, std::vector<uint8_t>*) const override {
    return SparseRow{part(rows_.columns, rows_.ends, i), part(rows_.values, rows_.ends, i)};
  }
  bool in_memory() const override { return true; }

 private:
  const Rows rows_;
};

}  // namespace

std::shared_ptr<const Split> keep_in_memory(Rows rows, Labels labels) {
  return std::make_shared<RowSplit>(std::move(rows), std::move(labels));
}

std::shared_ptr<const RowRoom> room_of(const Split& train, const Split& test, int64_t features) {
  constexpr double kSparse = 0.05;
  std::vector<int64_t> rows_by_length;
  for (const Split* split : {&train, &test}) {
    for (int64_t i = 0; i < split->size(); ++i) {
      const size_t length = std::get<SparseRow>(split->sample(i, nullptr)).columns.size();
      if (length >= rows_by_length.size()) rows_by_length.resize(length + 1);
      ++rows_by_length[length];
    }
  }
  auto room = std::make_shared<RowRoom>();
  room->most.reserve(static_cast<size_t>(train.size() + test.size() + 1));
  room->most.push_back(0);
  for (int64_t length = std::ssize(rows_by_length) - 1; length >= 0; --length) {
    for (int64_t i = 0; i < rows_by_length[static_cast<size_t>(length)]; ++i) {
      room->most.push_back(room->most.back() + length);
    }
  }
  room->mean = static_cast<double>(room->most.back()) / static_cast<double>(room->most.size() - 1);
  if (room->mean >= kSparse * static_cast<double>(features)) return nullptr;
  return room;
}

std::string shape_text(const Shape& image, int64_t classes, const std::vector<int64_t>& groups) {
  if (groups.size() == 2) {
    return fmt::format("{} users and {} items", grouped(groups[0]), grouped(groups[1]));
  }
  return fmt::format("shape {} in {} classes", image.str(), classes);
}

std::vector<std::string> numbered_classes(int64_t n) {
  std::vector<std::string> names;
  for (int64_t i = 0; i < n; ++i) names.push_back(std::to_string(i));
  return names;
}

}  // namespace crossbow::data
