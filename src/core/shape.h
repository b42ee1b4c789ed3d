// Tensor shapes: the logical sizes of a dense tensor. Images are NCHW, convolution weights OIHW.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace crossbow {

/// Sizes of at most six dimensions, outermost first; rank 0 is a scalar. A plain value.
class Shape {
 public:
  static constexpr int kMaxRank = 6;

  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) : Shape(std::span(dims.begin(), dims.size())) {}
  explicit Shape(std::span<const int64_t> dims);

  int rank() const { return rank_; }
  int64_t operator[](int i) const { return dims_[i]; }
  int64_t& operator[](int i) { return dims_[i]; }
  const int64_t* begin() const { return dims_.data(); }
  const int64_t* end() const { return dims_.data() + rank_; }

  /// Number of elements; 1 for a scalar.
  int64_t elements() const;
  /// Product of the dimensions from `axis` on.
  int64_t elements_from(int axis) const;
  /// Row-major strides in elements.
  Shape strides() const;
  /// The same shape with another first dimension.
  Shape with_batch(int64_t n) const;
  /// For example `[16, 3, 32, 32]`.
  std::string str() const;

  friend bool operator==(const Shape&, const Shape&) = default;

 private:
  int rank_ = 0;
  std::array<int64_t, kMaxRank> dims_{};
};

}  // namespace crossbow
