// The samples of a split as batches have them: in an epoch's order, augmented, and as pixels or
// normalised.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "data/dataset.h"
#include "data/picture.h"

namespace crossbow::data {

/// Random changes to each training image, drawn from (seed, epoch, sample); rows have none.
struct Augment {
  /// Of sets of encoded pictures: a random part of them, of at least that share of their area, is
  /// scaled to the size of the images (random_window). 0: their middle, as tests have it.
  double least_area = 0;
  /// The image is surrounded by so many pixels whose normalised value is about 0, numbers by zeros,
  /// and a window of its own size is cut out at random.
  int pad = 0;
  /// Half of the images are flipped left to right.
  bool mirror = false;
};

struct RowOptions {
  bool shuffle = false;  // a new order each epoch, from the seed
  Augment augment;
  uint64_t seed = 0;
  /// Of shuffled ones: so many neighbours come one after the other, mixed with those of other
  /// parts of the split, for files that are slow to read in any order; 0: none.
  int64_t shuffle_block = 0;
  static constexpr int kParts = 64;  // of which each has a run of neighbours under way
};

/// What a thread that writes rows keeps from one to the next.
struct RowScratch {
  std::vector<uint8_t> file, pixels, augmented;
  PictureCutter cutter;
};

/// Any number of threads may write at a time; `start` is for one, while nobody writes.
class EpochRows {
 public:
  EpochRows(const Dataset& dataset, std::shared_ptr<const Split> split, const RowOptions& options);

  int64_t size() const { return split_->size(); }
  const Split& split() const { return *split_; }
  const BatchFormat& format() const { return format_; }
  void start(int64_t epoch);

  /// These rows of the epoch's order, as far as there are so many, will soon be written.
  void expect(int64_t first, int64_t rows) const;
  /// Rows [begin, end) of a batch that begins at row `first` of the epoch's order, into their
  /// places in its fields. Sparse rows are written from the first to the last at once. Throws
  /// Error, which names the sample, if one cannot be decoded.
  void write(int64_t first, int64_t begin, int64_t end, RowScratch& scratch,
             const std::array<std::byte*, kFields>& fields) const;
  /// Zeros behind the rows of fields with room for `room`; of sparse ones, so that they are empty.
  void clear(int64_t rows, int64_t room, const std::array<std::byte*, kFields>& fields) const;

 private:
  void shuffle_blocks(Rng& rng);
  void write_label(int64_t index, std::byte* out) const;
  void write_sample(int64_t index, RowScratch& scratch, std::byte* out) const;
  void write_pixels(int64_t index, const uint8_t* pixels, RowScratch& scratch,
                    std::byte* out) const;
  /// The part of an encoded picture that the epoch has, as CHW bytes.
  const uint8_t* cut(int64_t index, std::span<const uint8_t> file, RowScratch& scratch) const;
  SparseRow sparse_row(int64_t place) const;
  void write_sparse(int64_t first, int64_t rows,
                    const std::array<std::byte*, kFields>& fields) const;
  /// `border`: the values of what surrounds the image, by channel.
  template <typename T, typename Border>
  void augment(const T* image, int64_t sample, const Border& border, T* out) const;

  const Shape image_;
  const double centre_;
  const LabelKind label_;
  const BatchFormat format_;
  const std::shared_ptr<const Split> split_;
  const RowOptions options_;
  const Normalisation normalisation_;
  const NormalisationTable normalised_;  // of pixels that become floats
  std::vector<uint32_t> order_;
  int64_t epoch_ = 0;
};

}  // namespace crossbow::data
