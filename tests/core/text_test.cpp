#include "core/text.h"

#include <gtest/gtest.h>

namespace crossbow {
namespace {

TEST(Text, IsWrappedAtSpaces) {
  EXPECT_EQ(wrapped("", 5), "");
  EXPECT_EQ(wrapped("one two", 7), "one two");
  EXPECT_EQ(wrapped("one two three", 7), "one two\nthree");
  EXPECT_EQ(wrapped("one two three", 7, 2), "one two\n  three");
  EXPECT_EQ(wrapped("one  two   three", 8, 1), "one  two\n three");
  EXPECT_EQ(wrapped("  one two", 6, 4), "  one\n    two");
  EXPECT_EQ(wrapped("a longerthanthat b", 6, 3), "a\n   longerthanthat\n   b");
  EXPECT_EQ(wrapped("± ± ±", 5), "± ± ±");
  EXPECT_EQ(wrapped("± ± ±", 4), "± ±\n±");
}

}  // namespace
}  // namespace crossbow
