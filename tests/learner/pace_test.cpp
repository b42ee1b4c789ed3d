#include "learner/pace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>

namespace crossbow {
namespace {

constexpr int64_t kSteps = 20000;

TEST(Pace, HasAMeanOfOneStep) {
  for (const Pace& pace : {Pace{.spread = 0.5}, Pace{.times = Pace::Times::uniform, .spread = 0.3},
                           Pace{.times = Pace::Times::recorded, .recorded = {0.5, 0.7, 1.8}}}) {
    double sum = 0;
    for (int64_t step = 0; step < kSteps; ++step) sum += pace.duration(1, 2, step, 0);
    EXPECT_NEAR(sum / kSteps, 1, 0.02);
  }
}

TEST(Pace, OfUniformTimesStaysWithinItsShare) {
  const Pace pace{.times = Pace::Times::uniform, .spread = 0.3, .slowness = {1, 4}};
  double least = 9, most = 0;
  for (int64_t step = 0; step < kSteps; ++step) {
    least = std::min(least, pace.duration(1, 0, step, 0));
    most = std::max(most, pace.duration(1, 0, step, 0));
    EXPECT_GE(pace.duration(1, 1, step, 0), 2.8);
  }
  EXPECT_GE(least, 0.7);
  EXPECT_LT(least, 0.71);
  EXPECT_LE(most, 1.3);
  EXPECT_GT(most, 1.29);
}

TEST(Pace, DrawsEachRecordedTimeAsOften) {
  const Pace pace{.times = Pace::Times::recorded, .recorded = {0.5, 0.7, 1.8}};
  std::map<double, int64_t> times;
  for (int64_t step = 0; step < kSteps; ++step) ++times[pace.duration(1, 0, step, 0)];
  ASSERT_EQ(times.size(), 3u);
  for (const auto& [time, count] : times) EXPECT_NEAR(count, kSteps / 3.0, kSteps / 30.0) << time;
}

/// Two nodes swap halves of 50 bytes, twice; four swap three quarters.
TEST(NetworkTerms, ASumTakesTwoRoundsOfShares) {
  const NetworkTerms network{.latency = 0.25, .bandwidth = 100};
  EXPECT_EQ(network.transfer(100), 1);
  EXPECT_EQ(network.sum(1, 100), 0);
  EXPECT_EQ(network.sum(2, 100), 2 * (0.25 + 0.5));
  EXPECT_EQ(network.sum(4, 100), 2 * (0.25 + 0.75));
  EXPECT_EQ(NetworkTerms{.latency = 0.25}.sum(4, 100), 0.5);
}

TEST(Pace, NodesFailWhereItSaysSo) {
  const Pace pace{.fails = {std::numeric_limits<double>::infinity(), 7}};
  EXPECT_EQ(pace.fails_at(1), 7);
  EXPECT_GT(pace.fails_at(0), 1e300);
  EXPECT_GT(pace.fails_at(2), 1e300);
}

}  // namespace
}  // namespace crossbow
