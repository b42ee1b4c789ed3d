#include "train/schedule.h"

#include <gtest/gtest.h>

#include <cmath>

namespace crossbow {
namespace {

using Kind = Schedule::Kind;

TEST(Schedule, FixedStaysWhereItIs) {
  const Schedule s{.kind = Kind::fixed, .lr = 0.1};
  EXPECT_DOUBLE_EQ(s.rate(0), 0.1);
  EXPECT_DOUBLE_EQ(s.rate(1'000'000'000'000), 0.1);
}

TEST(Schedule, StepDropsAgainAndAgain) {
  const Schedule s{.kind = Kind::step, .lr = 1, .gamma = 0.5, .milestones = {100}};
  EXPECT_DOUBLE_EQ(s.rate(99), 1);
  EXPECT_DOUBLE_EQ(s.rate(100), 0.5);
  EXPECT_DOUBLE_EQ(s.rate(399), 0.125);
  EXPECT_DOUBLE_EQ(s.rate(400), 0.0625);
}

TEST(Schedule, MultistepDropsAtEachMilestone) {
  const Schedule s{.kind = Kind::multistep, .lr = 1, .gamma = 0.1, .milestones = {100, 150}};
  EXPECT_DOUBLE_EQ(s.rate(99), 1);
  EXPECT_DOUBLE_EQ(s.rate(100), 0.1);
  EXPECT_DOUBLE_EQ(s.rate(149), 0.1);
  EXPECT_NEAR(s.rate(150), 0.01, 1e-15);
  EXPECT_NEAR(s.rate(1'000'000), 0.01, 1e-15);
}

TEST(Schedule, ASlowDecayHasNoStages) {
  Schedule s{.kind = Kind::step, .lr = 1, .gamma = 0.98, .milestones = {100}};
  EXPECT_FALSE(s.drops_by_stages());
  s.gamma = 0.1;
  EXPECT_TRUE(s.drops_by_stages());
}

TEST(Schedule, WarmsUpLinearly) {
  const Schedule s{
      .kind = Kind::multistep, .lr = 2, .gamma = 0.1, .milestones = {100}, .warmup = 50};
  EXPECT_DOUBLE_EQ(s.rate(0), 0);
  EXPECT_DOUBLE_EQ(s.rate(25), 1);
  EXPECT_DOUBLE_EQ(s.rate(50), 2);
  EXPECT_DOUBLE_EQ(s.rate(100), 0.2);
}

TEST(Schedule, CosineFallsToZeroAtTheEnd) {
  const Schedule s{.kind = Kind::cosine, .lr = 2, .warmup = 100, .total = 300};
  EXPECT_DOUBLE_EQ(s.rate(50), 1);
  EXPECT_DOUBLE_EQ(s.rate(100), 2);
  EXPECT_NEAR(s.rate(150), 1 + std::sqrt(0.5), 1e-12);
  EXPECT_NEAR(s.rate(200), 1, 1e-12);
  EXPECT_NEAR(s.rate(300), 0, 1e-12);
  EXPECT_NEAR(s.rate(400), 0, 1e-12);  // a run that was made longer does not go up again
}

TEST(Schedule, CountsEpochsInSamples) {
  const TrainOptions options{.epochs = 4,
                             .lr = 1,
                             .lr_schedule = "multistep",
                             .lr_milestones = {{2, 2.5}},
                             .lr_gamma = 0.5,
                             .warmup = 0.1};
  const Schedule s = Schedule::of(EpochSchedule::of(options), *options.epochs, 70);
  EXPECT_EQ(s.milestones, (std::vector<int64_t>{140, 175}));
  EXPECT_EQ(s.warmup, 7);
  EXPECT_EQ(s.total, 280);
}

}  // namespace
}  // namespace crossbow
