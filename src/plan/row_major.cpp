// Tensors as plans lay them out, from and to row-major values.
#include <algorithm>
#include <vector>

#include "core/error.h"
#include "plan/program.h"

namespace crossbow {
namespace {

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

void expect_whole(const Layout& layout, size_t elements) {
  if (static_cast<size_t>(layout.shape.elements()) != elements) {
    fail("{} values do not fill a tensor of {}", elements, layout.str());
  }
}

/// Where elements lie: an offset is a sum of one number a dimension.
std::vector<int64_t> offsets_along(const Layout& layout, int dim) {
  std::vector<int64_t> offsets;
  Shape index = layout.shape;
  std::fill_n(&index[0], index.rank(), 0);
  for (; index[dim] < layout.shape[dim]; ++index[dim]) offsets.push_back(layout.offset(index));
  return offsets;
}

/// Calls f(offset in the layout, i) for `elements` logical elements, the i-th of which lies at the
/// row-major position `first` + i. Goes through stripes of all rows, because elements of
/// neighbouring rows may share a cache line.
template <typename F>
void for_each_element(const Layout& layout, int64_t first, size_t elements, F f) {
  const Shape& shape = layout.shape;
  const int64_t end = first + static_cast<int64_t>(elements);
  if (first < 0 || end > shape.elements()) {
    fail("{} values from the {}-th on are not in a tensor of {}", elements, first, layout.str());
  }
  if (elements == 0) return;
  if (shape.rank() == 0) return f(0, 0);
  std::vector<std::vector<int64_t>> along;
  for (int d = 0; d < shape.rank(); ++d) along.push_back(offsets_along(layout, d));
  const std::vector<int64_t> columns = std::move(along.back());
  const int64_t width = std::ssize(columns), first_row = first / width;
  std::vector<int64_t> rows;
  for (int64_t row = first_row; row * width < end; ++row) {
    int64_t offset = 0;
    for (int64_t d = shape.rank() - 1, rest = row; d-- > 0; rest /= shape[d]) {
      offset += along[d][rest % shape[d]];
    }
    rows.push_back(offset);
  }
  constexpr int64_t kStripe = 64;
  for (int64_t stripe = 0; stripe < width; stripe += kStripe) {
    for (int64_t r = 0; r < std::ssize(rows); ++r) {
      const int64_t before = (first_row + r) * width;  // the row
      const int64_t from = std::max(stripe, first - before);
      const int64_t to = std::min({stripe + kStripe, width, end - before});
      for (int64_t c = from; c < to; ++c) f(rows[r] + columns[c], before + c - first);
    }
  }
}

}  // namespace

void read_part(const Layout& layout, const void* from, int64_t first, std::span<float> row_major) {
  if (layout.dtype == DType::f32) {
    const auto* const values = static_cast<const float*>(from);
    for_each_element(layout, first, row_major.size(),
                     [&](int64_t offset, int64_t i) { row_major[i] = values[offset]; });
  } else {
    for_each_element(layout, first, row_major.size(),
                     [&](int64_t offset, int64_t i) { row_major[i] = load(layout, from, offset); });
  }
}

void read_tensor(const Layout& layout, const void* from, std::span<float> row_major) {
  expect_whole(layout, row_major.size());
  read_part(layout, from, 0, row_major);
}

void read_tensor(const Layout& layout, const void* from, std::span<double> row_major) {
  expect_whole(layout, row_major.size());
  for_each_element(layout, 0, row_major.size(), [&](int64_t offset, int64_t i) {
    row_major[i] = layout.dtype == DType::f64 ? static_cast<const double*>(from)[offset]
                                              : load(layout, from, offset);
  });
}

template <typename T>
static void write_values(const Layout& layout, void* to, int64_t first,
                         std::span<const T> row_major) {
  for_each_element(layout, first, row_major.size(), [&](int64_t offset, int64_t i) {
    switch (layout.dtype) {
      case DType::f32:
        static_cast<float*>(to)[offset] = static_cast<float>(row_major[i]);
        break;
      case DType::f64:
        static_cast<double*>(to)[offset] = row_major[i];
        break;
      default:
        fail("parameters are f32 or f64, not {}", name_of(layout.dtype));
    }
  });
}

void write_part(const Layout& layout, void* to, int64_t first, std::span<const float> row_major) {
  write_values(layout, to, first, row_major);
}

void write_tensor(const Layout& layout, void* to, std::span<const float> row_major) {
  expect_whole(layout, row_major.size());
  write_values(layout, to, 0, row_major);
}

void write_tensor(const Layout& layout, void* to, std::span<const double> row_major) {
  expect_whole(layout, row_major.size());
  write_values(layout, to, 0, row_major);
}

}  // namespace crossbow
