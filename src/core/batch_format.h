// What a batch of samples consists of: what a pipeline fills, and a graph's inputs read.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/dtype.h"
#include "core/shape.h"

namespace crossbow {

/// An array of a batch, row-major.
struct Field {
  DType dtype = DType::f32;
  int64_t row_elements = 0;  // of each row; 0 in a format without this field

  size_t row_bytes() const { return static_cast<size_t>(row_elements) * size_of(dtype); }
  size_t bytes(int64_t rows) const { return static_cast<size_t>(rows) * row_bytes(); }
};

/// Slots of fields: indices into a batch's addresses, and of a graph's inputs.
constexpr size_t kSamples = 0, kLabels = 1, kFields = 2;
using FieldAddresses = std::array<const void*, kFields>;
using FieldBytes = std::array<size_t, kFields>;

/// The arrays of a batch, by slot.
struct BatchFormat {
  std::array<Field, kFields> fields;

  /// Of samples of so many floats with one class each.
  static BatchFormat dense(int64_t sample_elements) {
    return {{Field{DType::f32, sample_elements}, Field{DType::i32, 1}}};
  }
  /// A sample has a class or, with `label_sets`, a 1 for each class of its set.
  static BatchFormat of(const Shape& sample, int64_t classes, bool label_sets) {
    BatchFormat format = dense(sample.elements());
    if (label_sets) format.fields[kLabels] = {DType::f32, classes};
    return format;
  }

  /// Where a batch's rows from `first` on begin.
  FieldAddresses from_row(FieldAddresses batch, int64_t first) const {
    for (size_t i = 0; i < kFields; ++i) {
      batch[i] = static_cast<const std::byte*>(batch[i]) + fields[i].bytes(first);
    }
    return batch;
  }
};

}  // namespace crossbow
