// Row-major values beside what Layout::offset says of each element.
#include "plan/row_major.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "device/buffer.h"

namespace crossbow {
namespace {

/// As oneDNN has the weights of dense layers and of convolutions: rows of a block lie side by side.
Layout blocked(const Shape& shape, const std::vector<Layout::Block>& blocks) {
  Layout layout = Layout::plain(shape, DType::f32);
  layout.blocks = blocks;
  int64_t stride = 1;
  Shape outer = shape;
  for (const auto& [dim, size] : blocks) {
    outer[dim] = (outer[dim] + size - 1) / size;
    layout.padded[dim] = outer[dim] * size;
    stride *= size;
  }
  for (int d = shape.rank() - 1; d >= 0; --d) {
    layout.strides[d] = stride;
    stride *= outer[d];
  }
  return layout;
}

std::vector<Layout> layouts() {
  return {
      Layout::plain({}, DType::f32),
      Layout::plain({7}, DType::f32),
      Layout::plain({9, 150}, DType::f32),
      Layout::channel_blocked({4, 5, 3, 3}, DType::f32, 16),
      Layout::channels_last({2, 3, 5, 5}, DType::f32),
      blocked({70, 150}, {{1, 16}, {0, 64}}),
      blocked({33, 20, 3, 3}, {{1, 16}, {0, 16}}),
      blocked({5, 6}, {{0, 4}}),
  };
}

/// Where the i-th element in row-major order lies.
int64_t place(const Layout& layout, int64_t i) {
  Shape index = layout.shape;
  for (int d = index.rank() - 1; d >= 0; --d) {
    index[d] = i % layout.shape[d];
    i /= layout.shape[d];
  }
  return layout.offset(index);
}

/// The first element of a part, and how many it has: whole, and cut in all ways about the rows.
std::vector<std::pair<int64_t, int64_t>> parts(const Layout& layout) {
  const int64_t all = layout.shape.elements();
  const int64_t row = layout.shape.rank() > 1 ? all / layout.shape[0] : all;
  std::vector<std::pair<int64_t, int64_t>> found = {{0, all}, {0, 0}, {all, 0}};
  for (const int64_t first : {int64_t{0}, int64_t{1}, row - 1, row, row + 1, 3 * row}) {
    for (const int64_t count : {int64_t{1}, row, 4 * row - 1, 4 * row, 5 * row + 1, 9 * row}) {
      if (first >= 0 && first + count <= all) found.emplace_back(first, count);
    }
  }
  return found;
}

TEST(RowMajor, PartsAreReadWhereTheyLie) {
  for (const Layout& layout : layouts()) {
    std::vector<float> memory(static_cast<size_t>(layout.elements()));
    for (size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<float>(i) + 0.25f;
    const RowMajor order(layout);
    for (const auto& [first, count] : parts(layout)) {
      std::vector<float> values(static_cast<size_t>(count)), expected(values.size());
      for (int64_t i = 0; i < count; ++i) expected[i] = memory[place(layout, first + i)];
      order.read(memory.data(), first, values);
      EXPECT_EQ(values, expected) << layout.str() << ", " << count << " from " << first;
    }
  }
}

TEST(RowMajor, PartsAreWrittenWhereTheyLieAndNothingElse) {
  for (const Layout& layout : layouts()) {
    const RowMajor order(layout);
    for (const auto& [first, count] : parts(layout)) {
      std::vector<float> values(static_cast<size_t>(count));
      std::vector<float> memory(static_cast<size_t>(layout.elements()), -1.0f), expected = memory;
      for (int64_t i = 0; i < count; ++i) {
        values[i] = static_cast<float>(i) + 0.5f;
        expected[place(layout, first + i)] = values[i];
      }
      order.write(memory.data(), first, std::span<const float>(values));
      EXPECT_EQ(memory, expected) << layout.str() << ", " << count << " from " << first;
    }
  }
}

TEST(RowMajor, WhatATensorDoesNotHaveIsRefused) {
  for (const Layout& layout : layouts()) {
    const Buffer memory(layout.bytes());
    const RowMajor order(layout);
    const int64_t all = layout.shape.elements();
    std::vector<float> values(static_cast<size_t>(all) + 1);
    EXPECT_THROW(order.read(memory.data(), 0, std::span(values)), Error) << layout.str();
    EXPECT_THROW(order.read(memory.data(), -1, std::span(values).first(1)), Error);
    EXPECT_THROW(order.write(memory.data(), all, std::span<const float>(values).first(1)), Error);
    EXPECT_THROW(read_tensor(layout, memory.data(), std::span(values)), Error);
    EXPECT_THROW(write_tensor(layout, memory.data(), std::span<const float>(values)), Error);
  }
}

TEST(RowMajor, TensorsOfOtherTypesAreConverted) {
  for (const DType dtype : {DType::f64, DType::bf16}) {
    const Layout layout = Layout::channels_last({2, 3, 2, 2}, dtype);
    const Buffer memory(layout.bytes());
    std::vector<float> values(static_cast<size_t>(layout.shape.elements()));
    for (int64_t i = 0; i < std::ssize(values); ++i) {
      const auto value = static_cast<float>(i);  // exact in each type
      if (dtype == DType::f64) {
        memory.as<double>()[place(layout, i)] = value;
      } else {
        memory.as<bf16>()[place(layout, i)] = value;
      }
    }
    read_tensor(layout, memory.data(), std::span(values));
    for (int64_t i = 0; i < std::ssize(values); ++i) EXPECT_EQ(values[i], static_cast<float>(i));
  }
}

}  // namespace
}  // namespace crossbow
