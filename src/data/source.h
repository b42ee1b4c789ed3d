// Inside the data room: what each kind of set provides, and what they share.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "core/error.h"
#include "data/dataset.h"

namespace crossbow::data {

using Path = std::filesystem::path;
using Bytes = std::span<const uint8_t>;

/// A kind of set: what `crossbow data` says about it (`folder` and `found` are filled in later),
/// and how to open it from a folder, which is empty for a set that needs none.
struct Source {
  CatalogueEntry entry;
  std::shared_ptr<const Dataset> (*open)(const Path& folder, const OpenOptions& options);
  /// Whether the set's files are in `folder`. Throws Error if the system does not tell.
  bool (*found)(const Path& folder);
};

const Source& digits_source();
const Source& mnist_source();
const Source& cifar10_source();
const Source& cifar100_source();
const Source& imagefolder_source();
const Source& imagenet_source();
const Source& tfrecord_source();
const Source& tar_source();
const Source& libsvm_source();
const Source& ratings_source();
const Source& planted_ratings_source();
/// Drawn by the program: sets of the shapes of well-known ones.
std::vector<const Source*> planted_sources();

/// A split kept in memory: CHW images in a row. `owner` keeps them alive.
class MemorySplit final : public Split {
 public:
  MemorySplit(std::shared_ptr<const void> owner, const uint8_t* first, int64_t image_bytes,
              std::vector<int32_t> labels)
      : Split(std::move(labels)),
        owner_(std::move(owner)),
        first_(first),
        image_bytes_(image_bytes) {}

  Sample sample(int64_t i, std::vector<uint8_t>*) const override {
    return first_ + i * image_bytes_;
  }
  bool in_memory() const override { return true; }

 private:
  std::shared_ptr<const void> owner_;
  const uint8_t* first_;
  int64_t image_bytes_;
};

/// Takes a buffer whose images begin at `offset`, which spares parsers a copy.
std::shared_ptr<const Split> keep_in_memory(std::vector<uint8_t> buffer, size_t offset,
                                            int64_t image_bytes, std::vector<int32_t> labels);

/// Rows one after the other.
struct Rows {
  std::vector<int32_t> columns;
  std::vector<float> values;  // one a column
  std::vector<int64_t> ends;  // of each row's, in both

  int64_t size() const { return static_cast<int64_t>(ends.size()); }
};
std::shared_ptr<const Split> keep_in_memory(Rows rows, Labels labels);

/// For batches of either part's rows, which are sparse; null if at least one number in twenty is
/// not 0, where all numbers in a row are as quick to compute with.
std::shared_ptr<const RowRoom> room_of(const Split& train, const Split& test, int64_t features);

/// "0", "1", …
std::vector<std::string> numbered_classes(int64_t n);

/// The whole of a file, unpacked if it is gzipped. Throws Error if it cannot be read, is damaged,
/// or is longer than `limit` bytes (so that a small gzip file cannot fill the memory).
std::vector<uint8_t> read_file(const Path& path, size_t limit);

/// Calls `parse` on a file's contents; what it finds wrong is reported with the file's name.
template <typename Parse>
auto naming_file(const Path& path, Parse&& parse) {
  try {
    return parse();
  } catch (const Error& e) {
    fail("{}: {}", path.string(), e.what());
  }
}

/// The same with a sample's name, which is made if need be.
template <typename Use>
auto naming_sample(const Split& split, int64_t i, Use&& use) {
  try {
    return use();
  } catch (const Error& e) {
    fail("{}: {}", split.name_of(i), e.what());
  }
}

/// `folder`/`name`, or else `folder`/`name`.gz, whichever exists; an empty path if neither does.
/// Throws Error if the system does not tell.
Path find_file(const Path& folder, const std::string& name);
bool has_files(const Path& folder, const std::vector<std::string>& names);

}  // namespace crossbow::data
