#include "learner/engine_place.h"

#include <gtest/gtest.h>

#include <tuple>
#include <utility>

namespace crossbow {
namespace {

/// Exchanges, and steps since the last of them.
using Counts = std::pair<int64_t, int64_t>;

Counts changed(const Counts& counts, int before, int learners, int64_t exchanges_by_now) {
  EnginePlace place;
  std::tie(place.exchanges, place.since_exchange) = counts;
  place = place.with_learners(learners, before, exchanges_by_now);
  return {place.exchanges, place.since_exchange};
}

TEST(EnginePlace, CountsExchangesAsIfThereHadAlwaysBeenAsManyLearners) {
  EXPECT_EQ(changed({200, 0}, 4, 1, 10), Counts(10, 0));
  EXPECT_EQ(changed({10, 0}, 1, 4, 200), Counts(200, 0));
  EXPECT_EQ(changed({200, 0}, 4, 3, 266), Counts(266, 0));
  EXPECT_EQ(changed({200, 0}, /*not known*/ 0, 4, 210), Counts(210, 0));
}

TEST(EnginePlace, StaysWhereTheNumberOfLearnersDoes) {
  EXPECT_EQ(changed({200, 3}, 4, 4, 210), Counts(200, 3));
  EXPECT_EQ(changed({200, 3}, 1, 1, 210), Counts(200, 3));
}

/// Before the first exchange z is the model that the run began with, and no mean.
TEST(EnginePlace, KnowsWhetherThereIsAMean) {
  EXPECT_EQ(changed({0, 0}, 1, 4, 50), Counts(0, 0));
  EXPECT_EQ(changed({20, 0}, 4, 1, 0), Counts(1, 0));
}

/// One learner's periods are other ones than those of several.
TEST(EnginePlace, BeginsAPeriodBetweenOneLearnerAndSeveral) {
  EXPECT_EQ(changed({9, 3}, 2, 1, 9), Counts(9, 0));
  EXPECT_EQ(changed({9, 3}, 1, 2, 9), Counts(9, 0));
  EXPECT_EQ(changed({9, 3}, 2, 3, 9), Counts(9, 3));
}

/// Their momentum is 0 at first, which no noise is measured by.
TEST(EnginePlace, KnowsWhenTheLastLearnerJoined) {
  EnginePlace place;
  place.exchanges = 10;
  place = place.with_learners(2, 1, 60);
  EXPECT_EQ(place.joined, 60);
  place.exchanges = 90;
  EXPECT_EQ(place.with_learners(2, 2, 90).joined, 60);
  EXPECT_EQ(place.with_learners(1, 2, 90).joined, 60);
  EXPECT_EQ(place.with_learners(1, 2, 7).joined, 7);  // one learner exchanges less often
  EXPECT_EQ(place.with_learners(4, 2, 90).joined, 90);
}

}  // namespace
}  // namespace crossbow
