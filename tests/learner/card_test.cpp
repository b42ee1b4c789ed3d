#include "learner/card.h"

#include <gtest/gtest.h>

namespace crossbow {
namespace {

using Booking = CardLane::Booking;

TEST(CardLane, CarriesOneMessageAtATime) {
  CardLane lane;
  EXPECT_EQ(lane.book(1, 2, 0), 1);
  EXPECT_EQ(lane.book(1, 2, 0), 3);
  EXPECT_EQ(lane.book(2, 1, 0), 5);
  EXPECT_EQ(lane.bookings, (std::vector<Booking>{{1, 3}, {3, 5}, {5, 6}}));
}

TEST(CardLane, FillsTheFirstGapThatIsLongEnough) {
  CardLane lane;
  lane.book(2, 1, 0);
  lane.book(5, 1, 0);
  EXPECT_EQ(lane.book(0, 2, 0), 0);
  EXPECT_EQ(lane.book(2, 3, 0), 6);  // 3 to 5 is too short
  EXPECT_EQ(lane.book(2, 2, 0), 3);
  EXPECT_EQ(lane.book(0, 0, 0), 0);
}

TEST(CardLane, ForgetsWhatIsOver) {
  CardLane lane;
  lane.book(0, 1, 0);
  lane.book(1, 1, 0);
  EXPECT_EQ(lane.book(1.5, 1, 1), 2);
  EXPECT_EQ(lane.bookings, (std::vector<Booking>{{1, 2}, {2, 3}}));
}

}  // namespace
}  // namespace crossbow
