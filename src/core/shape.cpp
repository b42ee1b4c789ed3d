#include "core/shape.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "core/error.h"

namespace crossbow {

Shape::Shape(std::span<const int64_t> dims) : rank_(static_cast<int>(dims.size())) {
  if (dims.size() > kMaxRank) {
    fail("a tensor has at most {} dimensions, not {}", kMaxRank, dims.size());
  }
  std::copy(dims.begin(), dims.end(), dims_.begin());
}

int64_t Shape::elements() const {
  return elements_from(0);
}

int64_t Shape::elements_from(int axis) const {
  int64_t n = 1;
  for (int i = axis; i < rank_; ++i) n *= dims_[i];
  return n;
}

Shape Shape::strides() const {
  Shape s = *this;
  int64_t stride = 1;
  for (int i = rank_ - 1; i >= 0; --i) {
    s[i] = stride;
    stride *= dims_[i];
  }
  return s;
}

Shape Shape::with_batch(int64_t n) const {
  Shape s = *this;
  if (rank_ > 0) s[0] = n;
  return s;
}

std::string Shape::str() const {
  return fmt::format("[{}]", fmt::join(begin(), end(), ", "));
}

}  // namespace crossbow
