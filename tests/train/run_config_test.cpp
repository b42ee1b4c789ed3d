#include "train/run_config.h"

#include <gtest/gtest.h>

#include <limits>

#include "core/machine.h"
#include "kernels/precision.h"
#include "support/error_text.h"
#include "support/text.h"

namespace crossbow {
namespace {

using testing::error_of;
using testing::expect_says;

TEST(RunConfig, ANameIsEnough) {
  TrainOptions options;
  options.model = "resnet-20";
  const Recipe& recipe = find_model(options.model).recipe;
  const RunConfig c = resolve(options, recipe);
  EXPECT_EQ(c.model, "resnet-20");
  EXPECT_EQ(c.data, recipe.data);
  EXPECT_EQ(c.device.kind, "cpu");
  EXPECT_EQ(c.device.count, 1);
  EXPECT_EQ(c.precision, DType::f32);
  EXPECT_TRUE(std::holds_alternative<CrossEntropyLoss>(c.loss));
  EXPECT_EQ(c.batch, 16);
  EXPECT_EQ(c.splits, 1);
  EXPECT_EQ(c.augment.pad, recipe.pad);
  EXPECT_EQ(c.augment.mirror, recipe.mirror);
  EXPECT_EQ(c.optimizer.coefficients[kSgdMomentum], recipe.momentum);
  EXPECT_EQ(c.optimizer.weight_decay.factor, recipe.weight_decay);
  EXPECT_EQ(c.optimizer.coefficients[kSgdNesterov], 0);
  EXPECT_EQ(c.clip_norm, 0);
  EXPECT_EQ(c.schedule.lr, recipe.lr);
  EXPECT_EQ(c.schedule.milestones, recipe.lr_milestones);
  EXPECT_EQ(c.epochs, recipe.epochs);
  EXPECT_GT(c.target_accuracy, 1);
  EXPECT_EQ(c.patience, std::numeric_limits<int64_t>::max());
  EXPECT_EQ(c.options.lr, recipe.lr);
  ASSERT_FALSE(c.teams.empty());
  EXPECT_EQ(c.teams.front().arrangement, (Arrangement{1, physical_cores()}));
  EXPECT_NE(c.teams.front().sync, nullptr);  // sma averages over time too
}

TEST(RunConfig, WhatIsSetIsWhatItSays) {
  TrainOptions options;
  options.device = "ref";
  options.loss = "mse";
  options.clip_norm = 2;
  options.target_accuracy = 0.9;
  options.patience = 3;
  options.lr_schedule = "cosine";
  const RunConfig c = resolve(options, Recipe{});
  EXPECT_EQ(c.device.kind, "ref");
  EXPECT_TRUE(std::holds_alternative<MSELoss>(c.loss));
  EXPECT_EQ(c.clip_norm, 2);
  EXPECT_FALSE(c.compile_options(c.teams.front(), nullptr).update);
  EXPECT_EQ(c.target_accuracy, 0.9);
  EXPECT_EQ(c.patience, 3);
  EXPECT_EQ(c.schedule.kind, EpochSchedule::Kind::cosine);
}

TEST(RunConfig, ThePrecisionIsTheOneComputedIn) {
  TrainOptions options;
  options.precision = "bf16";
  EXPECT_EQ(resolve(options, Recipe{}).precision, computed_precision("cpu", DType::bf16));
}

TEST(RunConfig, ATeamsAlgorithmIsMadeOnce) {
  TrainOptions options;
  options.threads_per_learner = 1;
  options.sync = "slowmo";  // has an algorithm for one learner too
  const RunConfig c = resolve(options, Recipe{});
  EXPECT_EQ(c.teams.size(), static_cast<size_t>(physical_cores()));
  for (const TeamConfig& team : c.teams) {
    ASSERT_TRUE(team.sync);
    EXPECT_EQ(c.team(team.arrangement).sync, team.sync);
    EXPECT_EQ(c.with_at_most(1).team({1, 1}).sync, c.teams.front().sync);
  }
}

/// In a long epoch one learner of sma exchanges rarely, and several after every step.
TEST(TeamConfig, CountsExchangesByTheAlgorithmsPeriod) {
  TrainOptions o;
  o.sync = "sma";
  const auto exchanges = [&](int learners) {
    return team_of(o, {learners, 1}).exchanges_before(2, 25, /*epoch_batches=*/480);
  };
  EXPECT_EQ(exchanges(1), (2 * 480 + 25) / 10);
  EXPECT_EQ(exchanges(4), 2 * 120 + 7);
  o.sync = "none";
  EXPECT_EQ(exchanges(1), 0);
}

TEST(RunConfig, AResumedRunMayHaveATeamThatThisMachineWouldNot) {
  TrainOptions options;
  options.sync = "sma-paper";
  options.resume = "elsewhere";
  const RunConfig c = resolve(options, Recipe{});
  const Arrangement had{3, 4 * physical_cores()};
  const TeamConfig team = c.team(had);
  EXPECT_EQ(team.arrangement, had);
  EXPECT_EQ(team.threads.threads, had.threads);
  EXPECT_EQ(team.learners(), 3);
  ASSERT_TRUE(team.sync);
  EXPECT_EQ(team.sync->pull(), 1.0 / 3);
}

/// An alpha that suits few learners only.
TEST(RunConfig, AResumedRunNeedNotTakeTheTeamThatANewOneWould) {
  TrainOptions options;
  options.learners = 256;
  options.sync = "sma-paper";
  options.alpha = 0.5;
  expect_says(error_of([&] { resolve(options, Recipe{}); }), "`alpha` 0.5: with 256 learners");
  options.resume = "elsewhere";
  const RunConfig c = resolve(options, Recipe{});
  EXPECT_TRUE(c.teams.empty());
  EXPECT_TRUE(c.with_at_most(4).teams.empty());
  EXPECT_EQ(c.team({2, 1}).sync->pull(), 0.5);
}

TEST(RunConfig, TeamsWithoutABatchForEachLearnerGo) {
  TrainOptions options;
  options.threads_per_learner = 1;
  RunConfig c = resolve(options, Recipe{});
  EXPECT_EQ(c.with_at_most(1).teams.size(), 1u);
  EXPECT_EQ(c.with_at_most(physical_cores()).teams.size(), c.teams.size());
  options.deterministic = true;
  c = resolve(options, Recipe{});
  ASSERT_EQ(c.teams.size(), 1u);
  EXPECT_EQ(c.teams[0].arrangement, (Arrangement{physical_cores(), 1}));
  EXPECT_EQ(c.with_at_most(1).teams[0].arrangement, (Arrangement{1, 1}));
  options.learners = 5;  // asked for
  EXPECT_EQ(resolve(options, Recipe{}).with_at_most(1).teams[0].arrangement.learners, 5);
}

TEST(RunConfig, BatchNormIsMeasuredWhereTheModelLags) {
  TrainOptions options;
  options.learners = 2;
  const auto images = [&](bool states) {
    const RunConfig c = resolve(options, Recipe{});
    return c.bn_images(c.teams.front(), states);
  };
  EXPECT_EQ(images(true), 2048);
  options.sync = "local-sgd";
  EXPECT_EQ(images(true), 0);
  options.sync = "polyak-ruppert";
  EXPECT_EQ(images(true), 2048);
  EXPECT_EQ(images(false), 0);
  options.bn_images = 64;
  EXPECT_EQ(images(true), 64);
  expect_says(error_of([&] { images(false); }),
              "`bn-images` 64: the net has no batch norm that learns");
}

}  // namespace
}  // namespace crossbow
