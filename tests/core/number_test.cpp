#include "core/number.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace crossbow {
namespace {

TEST(Number, IsAllOfTheText) {
  EXPECT_EQ(number_of<int64_t>("-12"), -12);
  EXPECT_EQ(number_of<double>("1.5e3"), 1500);
  for (const char* text : {"", " 1", "1 ", "+1", "1x", "x", "1.5", "0x10"}) {
    EXPECT_FALSE(number_of<int64_t>(text)) << text;
  }
  EXPECT_FALSE(number_of<double>("1.5.5"));
}

TEST(Number, FitsItsType) {
  EXPECT_EQ(number_of<uint8_t>("255"), 255);
  EXPECT_FALSE(number_of<uint8_t>("256"));
  EXPECT_FALSE(number_of<uint8_t>("-1"));
  EXPECT_FALSE(number_of<double>("1e999"));
}

}  // namespace
}  // namespace crossbow
