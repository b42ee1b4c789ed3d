#include "device/layout.h"

#include <gtest/gtest.h>

#include <set>

#include "core/error.h"

namespace crossbow {
namespace {

/// Every logical element has a place of its own within the padded extent.
void expect_bijective(const Layout& layout) {
  std::set<int64_t> seen;
  const Shape& s = layout.shape;
  for (int64_t n = 0; n < s[0]; ++n) {
    for (int64_t c = 0; c < s[1]; ++c) {
      for (int64_t h = 0; h < s[2]; ++h) {
        for (int64_t w = 0; w < s[3]; ++w) {
          const int64_t at = layout.offset({n, c, h, w});
          EXPECT_TRUE(seen.insert(at).second);
          EXPECT_LT(at, layout.elements());
        }
      }
    }
  }
}

TEST(Layout, OffsetsAreUniqueAndInside) {
  const Shape shape{2, 21, 3, 4};
  expect_bijective(Layout::plain(shape, DType::f32));
  expect_bijective(Layout::channels_last(shape, DType::f32));
  expect_bijective(Layout::channel_blocked(shape, DType::f32, 16));
}

TEST(Layout, BlocksPadTheChannels) {
  const Layout blocked = Layout::channel_blocked({2, 21, 3, 4}, DType::bf16, 16);
  EXPECT_EQ(blocked.padded, (Shape{2, 32, 3, 4}));
  EXPECT_EQ(blocked.bytes(), 2u * 2 * 32 * 12);
  EXPECT_EQ(blocked.offset({1, 17, 2, 3}), 1 * 32 * 12 + 1 * 12 * 16 + 11 * 16 + 1);
  EXPECT_EQ(blocked.str(), "bf16 [2, 21, 3, 4] aBcd16b");
}

TEST(Layout, NestedBlocks) {
  // OI16i16o: the offset of (o, i) within a block is (i mod 16)·16 + o mod 16.
  Layout layout{{32, 32}, DType::f32, {32, 32}, {512, 256}, {{1, 16}, {0, 16}}};
  EXPECT_EQ(layout.offset({3, 5}), 5 * 16 + 3);
  EXPECT_EQ(layout.offset({19, 21}), 512 + 256 + 5 * 16 + 3);
}

TEST(ChannelView, CoversTheLayoutsOfActivations) {
  const Shape shape{2, 21, 3, 4};
  const ChannelView blocked = channel_view(Layout::channel_blocked(shape, DType::f32, 16));
  EXPECT_EQ(blocked.blocks, 2);
  EXPECT_EQ(blocked.block, 16);
  EXPECT_EQ(blocked.positions, 12);
  EXPECT_EQ(blocked.channels, 21);
  EXPECT_EQ(channel_view(Layout::plain(shape, DType::f32)).blocks, 21);
  EXPECT_EQ(channel_view(Layout::channels_last(shape, DType::f32)).block, 21);
  EXPECT_EQ(channel_view(Layout::plain({4, 10}, DType::f32)).block, 10);
}

TEST(ChannelView, RefusesOtherLayouts) {
  EXPECT_THROW(channel_view(Layout::plain({5}, DType::f32)), Error);
}

}  // namespace
}  // namespace crossbow
