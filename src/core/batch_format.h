// What a batch of samples consists of: what a pipeline fills, and a graph's inputs read.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/dtype.h"
#include "core/shape.h"

namespace crossbow {

/// How many numbers the sparse rows of a set have: those that are not 0.
struct RowRoom {
  std::vector<int64_t> most;  // that r rows have at most, by r from 0 on; empty: `mean` each
  double mean = 0;            // of a row

  static std::shared_ptr<const RowRoom> of_each(int64_t numbers) {
    return std::make_shared<RowRoom>(RowRoom{{}, static_cast<double>(numbers)});
  }
  int64_t of(int64_t rows) const {
    if (most.empty()) return rows * static_cast<int64_t>(mean);
    return most[std::min(static_cast<size_t>(rows), most.size() - 1)];
  }
};

/// What is known of a sample besides its numbers, and learnt: a class, a set of classes, a number.
enum class LabelKind : uint8_t { one_class, class_set, number };

/// An array of a batch, row-major.
struct Field {
  DType dtype = DType::f32;
  int64_t row_elements = 0;  // of each row; 0 in a format without this field
  /// Rows have unlike numbers of elements and follow each other without gaps; else null.
  std::shared_ptr<const RowRoom> room = nullptr;

  size_t row_bytes() const { return static_cast<size_t>(row_elements) * size_of(dtype); }
  size_t bytes(int64_t rows) const {
    return room ? static_cast<size_t>(room->of(rows)) * size_of(dtype)
                : static_cast<size_t>(rows) * row_bytes();
  }
};

/// Slots of fields: indices into a batch's addresses, and of a graph's inputs. Samples are either
/// dense, or sparse rows: of each its values, their columns in ascending order, and its extent,
/// which is two positions in these arrays, the first and the one past its last.
constexpr size_t kSamples = 0, kLabels = 1, kValues = 2, kColumns = 3, kExtents = 4, kFields = 5;
using FieldAddresses = std::array<const void*, kFields>;
using FieldBytes = std::array<size_t, kFields>;

/// The arrays of a batch, by slot.
struct BatchFormat {
  std::array<Field, kFields> fields;

  /// Of samples of so many numbers with one class each.
  static BatchFormat dense(int64_t sample_elements, DType sample_type = DType::f32) {
    return {{Field{sample_type, sample_elements}, Field{DType::i32, 1}}};
  }
  /// A set of classes is a row with a 1 for each of them. With `room` samples are sparse rows.
  static BatchFormat of(const Shape& sample, int64_t classes, LabelKind label,
                        const std::shared_ptr<const RowRoom>& room, DType sample_type) {
    BatchFormat format = dense(sample.elements(), sample_type);
    if (label == LabelKind::class_set) format.fields[kLabels] = {DType::f32, classes};
    if (label == LabelKind::number) format.fields[kLabels] = {DType::f32, 1};
    if (room) {
      format.fields[kSamples] = {};
      format.fields[kValues] = {DType::f32, 0, room};
      format.fields[kColumns] = {DType::i32, 0, room};
      format.fields[kExtents] = {DType::i32, 2};
    }
    return format;
  }

  bool is_sparse() const { return fields[kValues].room != nullptr; }

  /// Where a batch's rows from `first` on begin; the host can read the batch.
  FieldAddresses from_row(FieldAddresses batch, int64_t first) const {
    size_t numbers = 0;  // of the rows before
    if (is_sparse() && first > 0) {
      const auto* const extents = static_cast<const int32_t*>(batch[kExtents]);
      numbers = static_cast<size_t>(extents[2 * first - 1] - extents[0]);
    }
    for (size_t i = 0; i < kFields; ++i) {
      const Field& field = fields[i];
      const size_t bytes = field.room ? numbers * size_of(field.dtype) : field.bytes(first);
      batch[i] = static_cast<const std::byte*>(batch[i]) + bytes;
    }
    return batch;
  }
};

}  // namespace crossbow
