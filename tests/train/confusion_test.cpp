#include "train/confusion.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

namespace crossbow {
namespace {

TEST(Confusion, CountsByClassAndPrediction) {
  Confusion c(4);
  for (const auto& [actual, predicted] :
       {std::pair{0, 0}, {0, 2}, {0, 2}, {1, 1}, {2, 0}, {2, 2}, {2, 1}}) {
    c.add(actual, predicted);
  }
  EXPECT_EQ(c.count(0, 2), 2);
  EXPECT_EQ(c.samples(2), 3);
  EXPECT_EQ(c.accuracy(1), 1);
  EXPECT_DOUBLE_EQ(c.accuracy(0), 1.0 / 3);
  EXPECT_TRUE(std::isnan(c.accuracy(3)));
  EXPECT_EQ(c.worst_first(), (std::vector<int64_t>{0, 2, 1}));
  const auto mistakes = c.mistakes();
  ASSERT_EQ(mistakes.size(), 3u);
  EXPECT_EQ(mistakes[0].count, 2);
  EXPECT_EQ(mistakes[0].predicted, 2);
  EXPECT_EQ(mistakes[1].predicted, 0);
}

TEST(Confusion, OfAMillionClassesTakesLittleMemory) {
  Confusion c(1 << 20);
  c.add(3, 5);
  c.add(3, 3);
  EXPECT_EQ(c.most(), 1);
  EXPECT_EQ(c.accuracy(3), 0.5);
  EXPECT_EQ(c.mistakes().size(), 1u);
  EXPECT_EQ(c.worst_first(), (std::vector<int64_t>{3}));
}

TEST(Confusion, PredictsTheFirstOfEquals) {
  EXPECT_EQ(predicted_class(std::array{0.0, 3.0, 3.0}), 1);
}

}  // namespace
}  // namespace crossbow
