#include "plan/row_major.h"

#include <algorithm>

#include "core/error.h"

namespace crossbow {
namespace {

constexpr int64_t kStripe = 64, kTile = 4;

float load(const Layout& layout, const void* data, int64_t offset) {
  switch (layout.dtype) {
    case DType::f32:
      return static_cast<const float*>(data)[offset];
    case DType::f64:
      return static_cast<float>(static_cast<const double*>(data)[offset]);
    case DType::bf16:
      return static_cast<const bf16*>(data)[offset];
    case DType::i32:
      return static_cast<float>(static_cast<const int32_t*>(data)[offset]);
    case DType::u8:
      return static_cast<const uint8_t*>(data)[offset];
  }
  return 0;
}

Shape first_index(const Layout& layout) {
  Shape index = layout.shape;
  for (int d = 0; d < index.rank(); ++d) index[d] = 0;
  return index;
}

/// Goes through stripes of all rows, because elements of neighbouring rows may share a cache line:
/// calls visit(row, from, to) for the columns of a row that are in the stripe, and goes on after as
/// many rows as that returns.
template <typename Visit>
void for_stripes(int64_t width, int64_t rows, int64_t skipped, int64_t count, Visit visit) {
  for (int64_t stripe = 0; stripe < width; stripe += kStripe) {
    for (int64_t r = 0; r < rows;) {
      const int64_t from = std::max(stripe, r == 0 ? skipped : 0);
      const int64_t to = std::min({stripe + kStripe, width, skipped + count - r * width});
      r += visit(r, from, to);
    }
  }
}

void expect_whole(const Layout& layout, size_t elements) {
  if (static_cast<size_t>(layout.shape.elements()) != elements) {
    fail("{} values do not fill a tensor of {}", elements, layout.str());
  }
}

}  // namespace

/// Rows are the first dimension's, where there are others.
RowMajor::RowMajor(const Layout& layout) : layout_(layout) {
  const Shape& shape = layout.shape;
  const int outermost = shape.rank() > 1 ? 1 : 0;
  int64_t width = 1;
  for (int d = outermost; d < shape.rank(); ++d) width *= shape[d];
  columns_.reserve(static_cast<size_t>(width));
  Shape index = first_index(layout);
  for (int64_t i = 0; i < width; ++i) {
    columns_.push_back(layout.offset(index));
    for (int d = shape.rank() - 1; d >= outermost && ++index[d] == shape[d]; --d) index[d] = 0;
  }
}

RowMajor::Part RowMajor::part(int64_t first, size_t count) const {
  const int64_t end = first + static_cast<int64_t>(count);
  if (first < 0 || end > layout_.shape.elements()) {
    fail("{} values from the {}-th on are not in a tensor of {}", count, first, layout_.str());
  }
  if (count == 0) return {};
  const int64_t width = std::ssize(columns_), first_row = first / width;
  Part part{{}, first % width, static_cast<int64_t>(count)};
  Shape index = first_index(layout_);
  const bool one_row = layout_.shape.rank() < 2;
  for (int64_t row = first_row; row * width < end; ++row) {
    if (!one_row) index[0] = row;
    part.rows.push_back(layout_.offset(index));
  }
  return part;
}

/// Calls f(offset in the layout, i) for the part's elements, i from 0 on.
template <typename F>
void RowMajor::for_each(const Part& part, F f) const {
  const int64_t width = std::ssize(columns_);
  const auto visit = [&](int64_t r, int64_t from, int64_t to) {
    for (int64_t c = from; c < to; ++c) f(part.rows[r] + columns_[c], r * width + c - part.skipped);
    return 1;
  };
  for_stripes(width, std::ssize(part.rows), part.skipped, part.count, visit);
}

/// Rows that lie side by side, as most layouts of weights have them, are read several at a time.
void RowMajor::read_f32(const float* from, const Part& part, float* values) const {
  const int64_t width = std::ssize(columns_), rows = std::ssize(part.rows);
  const auto are_side_by_side = [&](int64_t r) {
    if (r == 0 && part.skipped > 0) return false;
    if ((r + kTile) * width > part.skipped + part.count) return false;
    for (int64_t i = 1; i < kTile; ++i) {
      if (part.rows[r + i] != part.rows[r] + i) return false;
    }
    return true;
  };
  const auto visit = [&](int64_t r, int64_t first, int64_t end) -> int64_t {
    const float* const source = from + part.rows[r];
    const int64_t begin = r * width - part.skipped;  // of the row, among the values
    const int64_t* const columns = columns_.data();
    if (!are_side_by_side(r)) {
      for (int64_t c = first; c < end; ++c) values[begin + c] = source[columns[c]];
      return 1;
    }
    for (int64_t c = first; c < end; ++c) {
      const float* const column = source + columns[c];
      for (int64_t i = 0; i < kTile; ++i) values[begin + i * width + c] = column[i];
    }
    return kTile;
  };
  for_stripes(width, rows, part.skipped, part.count, visit);
}

void RowMajor::read(const void* from, int64_t first, std::span<float> values) const {
  const Part wanted = part(first, values.size());
  if (layout_.dtype == DType::f32) {
    read_f32(static_cast<const float*>(from), wanted, values.data());
  } else {
    for_each(wanted, [&](int64_t at, int64_t i) { values[i] = load(layout_, from, at); });
  }
}

void RowMajor::read(const void* from, int64_t first, std::span<double> values) const {
  for_each(part(first, values.size()), [&](int64_t at, int64_t i) {
    values[i] = layout_.dtype == DType::f64 ? static_cast<const double*>(from)[at]
                                            : load(layout_, from, at);
  });
}

template <typename T>
void RowMajor::write_values(void* to, int64_t first, std::span<const T> values) const {
  for_each(part(first, values.size()), [&](int64_t at, int64_t i) {
    switch (layout_.dtype) {
      case DType::f32:
        static_cast<float*>(to)[at] = static_cast<float>(values[i]);
        break;
      case DType::f64:
        static_cast<double*>(to)[at] = values[i];
        break;
      default:
        fail("parameters are f32 or f64, not {}", name_of(layout_.dtype));
    }
  });
}

void RowMajor::write(void* to, int64_t first, std::span<const float> values) const {
  write_values(to, first, values);
}

void RowMajor::write(void* to, int64_t first, std::span<const double> values) const {
  write_values(to, first, values);
}

void read_tensor(const Layout& layout, const void* from, std::span<float> values) {
  expect_whole(layout, values.size());
  RowMajor(layout).read(from, 0, values);
}

void read_tensor(const Layout& layout, const void* from, std::span<double> values) {
  expect_whole(layout, values.size());
  RowMajor(layout).read(from, 0, values);
}

void write_tensor(const Layout& layout, void* to, std::span<const float> values) {
  expect_whole(layout, values.size());
  RowMajor(layout).write(to, 0, values);
}

void write_tensor(const Layout& layout, void* to, std::span<const double> values) {
  expect_whole(layout, values.size());
  RowMajor(layout).write(to, 0, values);
}

}  // namespace crossbow
