// Tensors as plans lay them out, from and to row-major values: checkpoints, exports, tests.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "device/layout.h"

namespace crossbow {

/// The order of a tensor's elements. May be used by any number of threads at a time.
class RowMajor {
 public:
  explicit RowMajor(const Layout& layout);

  /// The values from the row-major position `first` on. Both throw Error for positions that the
  /// tensor does not have, `write` also if it is neither f32 nor f64.
  void read(const void* from, int64_t first, std::span<float> values) const;
  void write(void* to, int64_t first, std::span<const float> values) const;
  void read(const void* from, int64_t first, std::span<double> values) const;
  void write(void* to, int64_t first, std::span<const double> values) const;

 private:
  /// A part of the elements, as some rows of a matrix, the first and last of which may be cut.
  struct Part {
    std::vector<int64_t> rows;  // where they begin
    int64_t skipped, count;     // elements: of the first row before the part, and of the part
  };
  Part part(int64_t first, size_t count) const;
  template <typename F>
  void for_each(const Part& part, F f) const;
  template <typename T>
  void write_values(void* to, int64_t first, std::span<const T> values) const;
  void read_f32(const float* from, const Part& part, float* values) const;

  Layout layout_;
  std::vector<int64_t> columns_;  // an element lies at the sum of its row's and its column's offset
};

/// A whole tensor. Throws Error for another number of values.
void read_tensor(const Layout& layout, const void* from, std::span<float> values);
void write_tensor(const Layout& layout, void* to, std::span<const float> values);
void read_tensor(const Layout& layout, const void* from, std::span<double> values);
void write_tensor(const Layout& layout, void* to, std::span<const double> values);

}  // namespace crossbow
