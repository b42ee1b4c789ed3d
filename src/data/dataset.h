// Data sets: labelled images, or rows of numbers, with random access, opened by name.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/batch_format.h"
#include "core/normalisation.h"
#include "core/shape.h"

namespace crossbow::data {

struct Info {
  std::string name;
  Shape image;  // of a sample: CHW, where pixels have 1 or 3 channels, or [features]
  int64_t classes = 0;
  std::vector<std::string> class_names;  // one a class
  Normalisation normalisation;           // the set's default, of pixels
  double centre = 1;  // share of an encoded picture's largest window of the image's proportions
  LabelKind label = LabelKind::one_class;  // with number there is one class, the number's name
  std::string note = {};                   // what opening the set decided, for people to read
  /// Batches hold the samples as sparse rows, which all splits have; null: as all their numbers.
  std::shared_ptr<const RowRoom> room = nullptr;
  /// Of ratings the columns of users, then those of items: a row has one of each group. Else empty.
  std::vector<int64_t> groups = {};
  uint32_t group_names = 0;  // a checksum of what the file calls them; 0: not known
  /// Of samples in batches. u8: pixels as they are, which the net's input is to normalise.
  DType sample_type = DType::f32;

  bool has_images() const { return image.rank() != 1; }
  /// What a sample is called.
  std::string_view noun() const { return has_images() ? "image" : "row"; }
  BatchFormat batch_format() const {
    return BatchFormat::of(image, classes, label, room, sample_type);
  }
};

/// Of an Info's members: "shape [3, 32, 32] in 10 classes", or "943 users and 1,682 items".
std::string shape_text(const Shape& image, int64_t classes, const std::vector<int64_t>& groups);

/// What belongs to the samples from `begin` up to `end`, of things one after the other: those of
/// sample i end at `ends[i]`.
template <typename T>
std::span<const T> part(const std::vector<T>& all, const std::vector<int64_t>& ends, int64_t begin,
                        int64_t end) {
  const auto first = [&](int64_t i) {
    return i == 0 ? 0 : static_cast<size_t>(ends[static_cast<size_t>(i - 1)]);
  };
  return std::span(all).subspan(first(begin), first(end) - first(begin));
}
template <typename T>
std::span<const T> part(const std::vector<T>& all, const std::vector<int64_t>& ends, int64_t i) {
  return part(all, ends, i, i + 1);
}

/// A row's numbers that are not 0.
struct SparseRow {
  std::span<const int32_t> columns;  // ascending, in [0, features)
  std::span<const float> values;     // one a column
};

/// A JPEG or PNG of any size.
struct EncodedPicture {
  std::span<const uint8_t> file;
};

/// Pixels as CHW bytes; or numbers that nothing normalises, all of them or those that are not 0.
using Sample = std::variant<const uint8_t*, const float*, SparseRow, EncodedPicture>;

/// Of each sample a class, in [0, classes), the set of its classes, or a number.
struct Labels {
  std::vector<int32_t> classes;
  std::vector<int64_t> ends;   // where each sample's end in `classes`; empty: each has one
  std::vector<float> numbers;  // one a sample, in place of classes; else empty

  Labels(std::vector<int32_t> one_each) : classes(std::move(one_each)) {}  // NOLINT: as written
  Labels(std::vector<int32_t> classes, std::vector<int64_t> ends)
      : classes(std::move(classes)), ends(std::move(ends)) {}
  Labels(std::vector<float> numbers) : numbers(std::move(numbers)) {}  // NOLINT: as written

  int64_t size() const {
    return static_cast<int64_t>(!numbers.empty() ? numbers.size()
                                : !ends.empty()  ? ends.size()
                                                 : classes.size());
  }
};

/// The samples of one part of a set. Immutable and thread-safe once opened.
class Split {
 public:
  virtual ~Split() = default;

  int64_t size() const { return labels_.size(); }
  /// Of samples that have one.
  float number(int64_t i) const { return labels_.numbers[static_cast<size_t>(i)]; }
  /// Of samples that have one class each.
  int32_t label(int64_t i) const { return labels_.classes[static_cast<size_t>(i)]; }
  double labels_per_sample() const {
    return static_cast<double>(labels_.classes.size()) / static_cast<double>(size());
  }
  /// In ascending order; of samples with classes.
  std::span<const int32_t> label_set(int64_t i) const {
    if (labels_.ends.empty()) return std::span(labels_.classes).subspan(static_cast<size_t>(i), 1);
    return part(labels_.classes, labels_.ends, i);
  }

  /// Where sample `i` lies, for a split kept in memory; otherwise the encoded picture, read into
  /// `scratch`. Samples of a split are of one kind. Throws Error, which names the file, if that
  /// cannot be read.
  virtual Sample sample(int64_t i, std::vector<uint8_t>* scratch) const = 0;
  /// Whether `sample` leaves `scratch` alone.
  virtual bool in_memory() const = 0;
  /// What errors call sample `i`.
  virtual std::string name_of(int64_t i) const { return "sample " + std::to_string(i); }
  /// Sample `i` will soon be asked for.
  virtual void expect(int64_t /*i*/) const {}

 protected:
  explicit Split(Labels labels) : labels_(std::move(labels)) {}

 private:
  Labels labels_;
};

/// Whether its samples are pixels, decoded or not.
bool has_pixels(const Split& split);

struct Dataset {
  Info info;
  std::shared_ptr<const Split> train, test;
  std::vector<std::string> bad = {};  // what was left out of it, and why

  /// The same, in batches of all numbers, as floats.
  Dataset dense() const {
    Dataset dense = *this;
    dense.info.room = nullptr;
    dense.info.sample_type = DType::f32;
    return dense;
  }
};

struct OpenOptions {
  /// Height and width of images made from pictures; zeros take the size of the first of an
  /// `imagefolder`, else 224.
  std::array<int64_t, 2> image_size{0, 0};
  /// The pictures of an `imagefolder` stay encoded, to be cut when they are asked for.
  bool keep_encoded = false;
  /// Records that cannot be read are left out, and told in Dataset::bad; else the first ends it.
  bool skip_bad = false;
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

/// Where NAME without DIR is looked for.
std::filesystem::path default_folder(std::string_view name);

/// What can be opened, for people to read.
struct CatalogueEntry {
  std::string name;
  std::string about;
  Shape image;  // rank 0 where the folder decides, as are the numbers below
  int64_t classes = 0;
  int64_t train = 0, test = 0;
  std::string source;              // where to get it; empty if there is nothing to get
  std::vector<std::string> files;  // expected in the folder, gzipped or not
  std::string takes = "DIR";       // what follows NAME and a colon
  std::string folder;              // where NAME without DIR looks; empty if it needs none, or DIR
  bool found = false;              // whether opening NAME as it stands would find its files
  bool rows = false;               // of numbers instead of images
  bool pictures = false;           // of any size, which stay encoded

  /// Whether images are made from pictures of any size.
  bool has_pictures() const { return image.rank() == 0 && !rows; }
};
std::vector<CatalogueEntry> catalogue();
/// Of the set that NAME or NAME:DIR opens, without `folder` and `found`. Throws UsageError for a
/// name that is not in the catalogue.
const CatalogueEntry& catalogue_entry(std::string_view spec);

}  // namespace crossbow::data
