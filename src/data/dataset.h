// Data sets: labelled images with random access, opened by name.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/shape.h"

namespace crossbow::data {

/// What turns a pixel into a network's input: (pixel / 255 − mean) / std, per channel. The entries
/// past the number of channels are unused.
struct Normalisation {
  std::array<float, 3> mean{0, 0, 0};
  std::array<float, 3> std{1, 1, 1};
};

struct Info {
  std::string name;
  Shape image;  // CHW; pixels have 1 or 3 channels
  int64_t classes = 0;
  std::vector<std::string> class_names;  // one a class
  Normalisation normalisation;           // the set's default
};

/// The samples of one part of a set. Immutable and thread-safe once opened.
class Split {
 public:
  virtual ~Split() = default;

  int64_t size() const { return static_cast<int64_t>(labels_.size()); }
  /// In [0, classes).
  int32_t label(int64_t i) const { return labels_[static_cast<size_t>(i)]; }

  /// The pixels of sample `i` as CHW bytes: where they lie, for a split kept in memory; otherwise
  /// decoded into `scratch`, which has room for one image. Throws Error, which names the file, if
  /// that cannot be decoded.
  virtual const uint8_t* pixels(int64_t i, uint8_t* scratch) const = 0;
  /// For a split whose samples are numbers rather than pixels: where those of sample `i` lie, as
  /// CHW floats that nothing normalises. Null for all samples of other splits.
  virtual const float* values(int64_t /*i*/) const { return nullptr; }
  /// Whether `pixels` leaves `scratch` alone.
  virtual bool in_memory() const = 0;

 protected:
  explicit Split(std::vector<int32_t> labels) : labels_(std::move(labels)) {}

 private:
  std::vector<int32_t> labels_;
};

struct Dataset {
  Info info;
  std::shared_ptr<const Split> train, test;
};

struct OpenOptions {
  /// Height and width of the images that `imagefolder` makes; zeros take the size of the first.
  std::array<int64_t, 2> image_size{0, 0};
  /// Sets whose pixels take at most so many bytes are decoded once and kept; 0 is 4 GiB or a
  /// quarter of the machine's memory, whichever is less.
  int64_t memory_budget = 0;
  /// For decoding or generating while opening; 0 is one a core.
  int threads = 0;
  /// Called now and then from the opening thread while a set is decoded or generated.
  std::function<void(std::string_view what, int64_t done, int64_t total)> progress;
};

/// Opens a set given as NAME or NAME:DIR; without DIR it is looked for in $CROSSBOW_DATA/NAME, or
/// data/NAME where that variable is not set. Throws UsageError for a name that is not in the
/// catalogue, and Error for a missing or damaged set, saying what should be where.
std::shared_ptr<const Dataset> open_dataset(std::string_view spec, const OpenOptions& options = {});

/// What can be opened, for people to read.
struct CatalogueEntry {
  std::string name;
  std::string about;
  Shape image;  // rank 0 where the folder decides, as are the numbers below
  int64_t classes = 0;
  int64_t train = 0, test = 0;
  std::string source;              // where to get it; empty if there is nothing to get
  std::vector<std::string> files;  // expected in the folder, gzipped or not
  std::string folder;              // where NAME without DIR looks; empty if it needs none, or DIR
  bool found = false;              // whether opening NAME as it stands would find its files
};
std::vector<CatalogueEntry> catalogue();
/// Of the set that NAME or NAME:DIR opens, without `folder` and `found`. Throws UsageError for a
/// name that is not in the catalogue.
const CatalogueEntry& catalogue_entry(std::string_view spec);

}  // namespace crossbow::data
