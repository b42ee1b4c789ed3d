// The order of what happens to a rank's nodes.
#include "learner/rank_events.h"

#include <gtest/gtest.h>

namespace crossbow::testing {
namespace {

using Kind = RankEvent::Kind;

TEST(RankEvent, IsItsCode) {
  for (const RankEvent& e : {RankEvent{Kind::turn, 0, 0},
                             {Kind::turn, 8191, 0},
                             {Kind::answer, 7, 0},
                             {Kind::arrival, 0, 0},
                             {Kind::arrival, 8191, 5}}) {
    EXPECT_GE(e.code(), 0);
    EXPECT_LT(e.code(), 1 << 16);
    EXPECT_EQ(RankEvent::of(e.code()), e);
  }
}

TEST(RankEvent, HasNoCodeBeyondItsLimits) {
  EXPECT_EQ((RankEvent{Kind::arrival, 0, 6}).code(), -1);
  EXPECT_EQ((RankEvent{Kind::turn, 8192, 0}).code(), -1);
}

TEST(Arrivals, InOrderOvertakeNone) {
  Arrivals arrivals(2);
  for (int64_t i = 0; i < 200; ++i) EXPECT_EQ(arrivals.take(1, i), 0) << i;
  EXPECT_EQ(arrivals.take(0, 0), 0);
}

/// Sent as 0 to 5, arrived as 2, 0, 5, 1, 4, 3.
TEST(Arrivals, CountWhatHasNotArrivedOfTheEarlierOnes) {
  Arrivals arrivals(1);
  EXPECT_EQ(arrivals.take(0, 2), 2);
  EXPECT_EQ(arrivals.overtaken(0, 0), 0);
  EXPECT_EQ(arrivals.overtaken(0, 1), 1);
  EXPECT_EQ(arrivals.take(0, 0), 0);
  EXPECT_EQ(arrivals.take(0, 5), 3);
  EXPECT_EQ(arrivals.take(0, 1), 0);
  EXPECT_EQ(arrivals.take(0, 4), 1);
  EXPECT_EQ(arrivals.take(0, 3), 0);
  EXPECT_EQ(arrivals.take(0, 6), 0);
}

TEST(Arrivals, AllOfALongRowMayComeBeforeItsFirst) {
  Arrivals arrivals(1);
  for (int64_t i = 1; i < 64; ++i) EXPECT_EQ(arrivals.take(0, i), 1);
  EXPECT_EQ(arrivals.take(0, 64), 64);  // too far ahead to be counted
  EXPECT_EQ(arrivals.take(0, 0), 0);
  EXPECT_EQ(arrivals.take(0, 65), 1);
}

}  // namespace
}  // namespace crossbow::testing
