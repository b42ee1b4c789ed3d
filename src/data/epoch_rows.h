// The samples of a split as batches have them: in an epoch's order, augmented and normalised.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "data/dataset.h"

namespace crossbow::data {

/// Random changes to each training image, drawn from (seed, epoch, sample); rows have none.
struct Augment {
  /// The image is surrounded by so many pixels of normalised value 0, and a window of its own size
  /// is cut out at random.
  int pad = 0;
  /// Half of the images are flipped left to right.
  bool mirror = false;
};

struct RowOptions {
  bool shuffle = false;  // a new order each epoch, from the seed
  Augment augment;
  uint64_t seed = 0;
};

/// Any number of threads may write at a time; `start` is for one, while nobody writes.
class EpochRows {
 public:
  EpochRows(const Dataset& dataset, std::shared_ptr<const Split> split, const RowOptions& options);

  int64_t size() const { return split_->size(); }
  const Split& split() const { return *split_; }
  const BatchFormat& format() const { return format_; }
  void start(int64_t epoch);

  /// What a thread that writes needs as `scratch`.
  std::vector<uint8_t> make_scratch() const;
  /// The rows [first, first + rows) of the epoch's order, into fields with room for `room` rows, of
  /// which zeros follow; sparse rows are then empty. Throws Error, which names the file, if a
  /// sample cannot be decoded.
  void write(int64_t first, int64_t rows, int64_t room, uint8_t* scratch,
             const std::array<std::byte*, kFields>& fields) const;

 private:
  void write_label(int64_t index, std::byte* out) const;
  void write_sample(int64_t index, uint8_t* scratch, float* out) const;
  SparseRow sparse_row(int64_t place) const;
  void write_sparse(int64_t first, int64_t rows,
                    const std::array<std::byte*, kFields>& fields) const;
  template <typename T, typename Normalise>
  void write_image(const T* image, int64_t sample, float* out, Normalise normalise) const;

  const Shape image_;
  const LabelKind label_;
  const BatchFormat format_;
  const std::shared_ptr<const Split> split_;
  const RowOptions options_;
  const std::vector<std::array<float, 256>> normalised_;  // pixels, by channel and value
  std::vector<uint32_t> order_;
  int64_t epoch_ = 0;
};

}  // namespace crossbow::data
