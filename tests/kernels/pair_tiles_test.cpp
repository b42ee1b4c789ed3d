// Conversions of weights for products of bf16, against the layouts' own account of where elements
// lie.
#include "kernels/cpu/pair_tiles.h"

#include "kernels/loops.h"

namespace crossbow {
namespace {

/// As oneDNN names formats: the outer order of dimensions, then blocks as size and dimension.
Layout layout_of(const Shape& shape, DType dtype, std::string_view tag) {
  const auto dimension = [](char c) { return (c | 0x20) - 'a'; };
  Layout layout{shape, dtype, shape, shape, {}};
  const std::string_view order = tag.substr(0, shape.rank());
  Shape block = shape;
  for (int d = 0; d < shape.rank(); ++d) block[d] = 1;
  int64_t size = 0, in_block = 1;
  for (char c : tag.substr(order.size())) {
    if (c >= '0' && c <= '9') {
      size = size * 10 + (c - '0');
      continue;
    }
    layout.blocks.push_back({dimension(c), size});
    block[dimension(c)] *= size;
    in_block *= std::exchange(size, 0);
  }
  for (size_t i = order.size(); i-- > 0;) {
    const int d = dimension(order[i]);
    const int64_t outer = (shape[d] + block[d] - 1) / block[d];
    layout.padded[d] = outer * block[d];
    layout.strides[d] = std::exchange(in_block, in_block * outer);
  }
  return layout;
}

struct Conversion {
  Shape shape;
  const char *from, *to;
};

/// Calls f with each index.
template <typename F>
void for_indices(const Shape& sizes, const F& f) {
  Shape index = sizes;
  for (int64_t i = 0; i < sizes.elements(); ++i) {
    int64_t rest = i;
    for (int d = sizes.rank(); d-- > 0; rest /= sizes[d]) index[d] = rest % sizes[d];
    f(index);
  }
}

std::vector<Bf16> converted(const PreparedKernel& kernel, std::vector<float> from) {
  std::vector<Bf16> to(kernel.outputs[0].elements() + 1, Bf16{42});
  kernel.bind({{from.data()}, {to.data()}})(Step{});
  return to;
}

TEST(PairTiles, PutEachElementInItsPlace) {
  // Convolutions and dense layers, by the processor's products: pairs along either side.
  for (const Conversion& c : {Conversion{{64, 48, 3, 3}, "ABcd16b16a", "ABcd16a16b2a"},
                              Conversion{{64, 96, 3, 2}, "ABcd16b16a", "AcdB16b32a2b"},
                              Conversion{{32, 64, 1, 1}, "ABcd16b16a", "AcdB32a2b"},
                              Conversion{{50, 32, 3, 3}, "ABcd16b16a", "AcdB16a2b"},
                              Conversion{{48, 16, 3, 3}, "ABcd16b16a", "AcdB16b32a2b"},
                              Conversion{{40, 30}, "AB16b16a", "AB16b16a2b"},
                              Conversion{{96, 100}, "AB16b16a", "AB8b16a2b"},
                              Conversion{{70, 100}, "AB16b64a", "AB16b64a2b"},
                              Conversion{{70, 100}, "AB16b64a", "AB8b16a2b"},
                              Conversion{{64, 96}, "BA16b64a", "BA64a2b"}}) {
    const Layout from = layout_of(c.shape, DType::f32, c.from);
    const Layout to = layout_of(c.shape, DType::bf16, c.to);
    SCOPED_TRACE(from.str() + " to " + to.str());
    const auto values = random_values<float>(from.elements(), 1);
    for (int threads : {1, 3}) {
      const auto kernel = prepare_pairs(from, to, threads);
      ASSERT_TRUE(kernel);
      const std::vector<Bf16> result = converted(*kernel, values);
      for_indices(to.padded, [&](const Shape& index) {
        const bool padding = index[0] >= from.padded[0] || index[1] >= from.padded[1];
        ASSERT_EQ(result[to.offset(index)],
                  padding ? Bf16{} : stored<Bf16>(values[from.offset(index)]))
            << index.str();
      });
      EXPECT_EQ(result.back(), 42);
    }
  }
}

TEST(PairTiles, LeaveOtherLayoutsToTheLibrary) {
  for (const Conversion& c : {Conversion{{64, 48, 3, 3}, "abcd", "ABcd16a16b2a"},
                              Conversion{{64, 48, 3, 3}, "ABcd16b16a", "acdb"},
                              Conversion{{64, 48, 3, 3}, "ABcd8b16a", "AcdB16a2b"},
                              Conversion{{64, 48, 3, 3}, "ABcd16b8a", "AcdB16a2b"},
                              Conversion{{64, 48, 3, 3}, "ABcd16b16a", "AcdB16a4b"},
                              Conversion{{64, 48, 3, 3}, "ABcd16b16a", "AcdB8a2b"},
                              Conversion{{64, 10, 3, 3}, "ABcd16b16a", "AcdB4b16a2b"},
                              Conversion{{64, 48, 3, 3}, "ABcd16b16a", "ABcd16b16a"},
                              Conversion{{64, 48, 3, 3}, "ABcd16b16a", "AcdB16c2b"},
                              Conversion{{40, 20}, "AB16b16a", "AB32a2b"}}) {
    const Layout from = layout_of(c.shape, DType::f32, c.from);
    const Layout to = layout_of(c.shape, DType::bf16, c.to);
    SCOPED_TRACE(from.str() + " to " + to.str());
    EXPECT_FALSE(prepare_pairs(from, to, 1));
    EXPECT_FALSE(prepare_pairs(from.with_dtype(DType::bf16), to, 1));
  }
}

class PairLoops : public LoopsTest {};

TEST_P(PairLoops, RoundAndInterleave) {
  constexpr int64_t kTile = 16, kRow = 21, kPairs = 36;
  const auto tile = random_values<float>(kTile * kRow, 2);
  std::vector<Bf16> rows(kTile / 2 * kPairs, Bf16{42}), columns = rows;
  loops_->pair_rows(tile.data(), kRow, rows.data(), kPairs);
  loops_->pair_columns(tile.data(), kRow, columns.data(), kPairs);
  for (int64_t i = 0; i < std::ssize(rows); ++i) {
    const int64_t pair = i / kPairs, at = i % kPairs / 2, half = i % 2;
    const bool inside = at < kTile;
    const auto value = [&](int64_t row, int64_t column) {
      return inside ? stored<Bf16>(tile[row * kRow + column]) : Bf16{42};
    };
    ASSERT_EQ(rows[i], value(2 * pair + half, at)) << i;
    ASSERT_EQ(columns[i], value(at, 2 * pair + half)) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, PairLoops, instruction_sets(), instruction_set);

}  // namespace
}  // namespace crossbow
