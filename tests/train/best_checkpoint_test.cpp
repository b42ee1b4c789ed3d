#include "train/best_checkpoint.h"

#include <gtest/gtest.h>

#include <fstream>

#include "support/error_text.h"
#include "train/checkpoints.h"
#include "train/tiny_run.h"

namespace crossbow {
namespace {

namespace fs = std::filesystem;
using testing::error_of;
using testing::expect_same_bits;
using testing::load;
using testing::StopAfter;
using testing::tiny_net;
using testing::tiny_options;
using testing::TinyData;

class KeepBest : public ::testing::Test {
 protected:
  /// Steps of this size make the accuracy rise and fall.
  TrainOptions options(const std::string& run) {
    TrainOptions o = tiny_options(data_, "ref");
    o.out = folder(run);
    o.epochs = 8;
    o.lr = 0.4;
    o.lr_schedule = "fixed";
    o.lr_milestones.reset();
    o.keep_best = true;
    return o;
  }
  std::string folder(const std::string& run) const { return (runs_.path() / run).string(); }
  std::string best(const std::string& run) const { return folder(run) + "/checkpoint.best"; }

  TinyData data_;
  data::TemporaryFolder runs_;
};

TEST_F(KeepBest, HoldsTheStateOfTheBestEpoch) {
  const TrainResult r = train(tiny_net, options("run"));
  const EpochRecord* epoch = best_of(r.history);
  ASSERT_LT(epoch->epoch, 8) << "the last epoch is the best one: nothing is tested";
  EXPECT_EQ(r.best_epoch_kept, epoch->epoch);
  EXPECT_EQ(epoch->test_accuracy, r.best_test_accuracy);
  TrainOptions until = options("until");
  until.keep_best = false;
  until.epochs = epoch->epoch;
  train(tiny_net, until);
  expect_same_bits(load(best("run")), load(folder("until")));
  EXPECT_FALSE(fs::exists(best("until")));
}

TEST_F(KeepBest, AStoppedRunGoesOnToTheSameBest) {
  const TrainResult whole = train(tiny_net, options("whole"));
  for (const int calls : {3, 8, 15, 31}) {
    const std::string run = "stopped" + std::to_string(calls);
    StopAfter stop(calls);
    ASSERT_TRUE(train(tiny_net, options(run), &stop).interrupted);
    TrainOptions again = options(run);
    again.resume = folder(run);
    EXPECT_EQ(train(tiny_net, again).best_epoch_kept, whole.best_epoch_kept) << calls;
    expect_same_bits(load(best("whole")), load(best(run)));
  }
}

/// A crash between an epoch's checkpoint and its second name; and a run that is told to keep the
/// best only when it is resumed.
TEST_F(KeepBest, AResumedRunKeepsTheEpochThatItStartsFrom) {
  TrainOptions o = options("run");
  o.epochs = 1;
  train(tiny_net, o);
  fs::remove(best("run"));
  o.resume = folder("run");
  EXPECT_EQ(train(tiny_net, o).best_epoch_kept, 1);
  expect_same_bits(load(best("run")), load(folder("run")));
  std::ofstream(best("run"), std::ios::trunc) << "rubbish";
  EXPECT_EQ(train(tiny_net, o).best_epoch_kept, 1);
  EXPECT_EQ(load(best("run")).position.epoch, 1);
}

/// The state of the best epoch is gone, and that of the last one is not the best.
TEST_F(KeepBest, AResumedRunKeepsNothingWorseThanItHasHad) {
  TrainOptions o = options("run");
  o.keep_best = false;
  const TrainResult before = train(tiny_net, o);
  ASSERT_LT(*before.final_test_accuracy, *before.best_test_accuracy);
  o.keep_best = true;
  o.resume = folder("run");
  EXPECT_FALSE(train(tiny_net, o).best_epoch_kept);
  EXPECT_FALSE(fs::exists(best("run")));
  // Nor is a target reached that an epoch before would have reached.
  o.target_accuracy = *before.best_test_accuracy;
  EXPECT_FALSE(train(tiny_net, o).epochs_to_target);
}

TEST_F(KeepBest, WantsAFolder) {
  TrainOptions o = options("run");
  o.out.reset();
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "`keep-best`: there is no folder",
                      error_of([&] { train(tiny_net, o); }));
}

TEST_F(KeepBest, LeavesTheOldOneWhereItCannotBeReplaced) {
  train(tiny_net, options("run"));
  const Checkpoint before = load(best("run"));
  fs::remove(folder("run") + "/checkpoint");
  BestCheckpoint kept(folder("run"), /*resumed=*/true);
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "/checkpoint: No such file",
                      error_of([&] { kept.keep({.epoch = 9, .test_accuracy = 1.0}); }));
  expect_same_bits(load(best("run")), before);
  EXPECT_FALSE(fs::exists(best("run") + ".next"));
}

class Patience : public KeepBest {
 protected:
  TrainOptions options(const std::string& run) {
    TrainOptions o = KeepBest::options(run);
    o.keep_best = false;
    o.epochs = 30;
    o.patience = 2;
    return o;
  }
};

/// How many epochs such a history may have; all, if patience does not end it.
size_t epochs_with_patience(const std::vector<EpochRecord>& history, int patience) {
  double best = -1;
  int since = 0;
  for (size_t i = 0; i < history.size(); ++i) {
    if (!history[i].test_accuracy) continue;
    since = *history[i].test_accuracy > best ? 0 : since + 1;
    best = std::max(best, *history[i].test_accuracy);
    if (since == patience) return i + 1;
  }
  return history.size();
}

TEST_F(Patience, EndsARunThatGetsNoBetter) {
  TrainOptions o = options("all");
  o.patience.reset();
  const TrainResult all = train(tiny_net, o);
  EXPECT_FALSE(all.stopped_early);
  const TrainResult r = train(tiny_net, options("run"));
  const size_t epochs = epochs_with_patience(all.history, 2);
  ASSERT_LT(epochs, 30u);
  EXPECT_EQ(r.history.size(), epochs);
  EXPECT_TRUE(r.stopped_early);
  EXPECT_FALSE(r.interrupted);
}

TEST_F(Patience, CountsEvaluationsNotEpochs) {
  TrainOptions o = options("run");
  o.lr = 1e-9;
  o.eval_every = 3;
  const TrainResult r = train(tiny_net, o);
  ASSERT_TRUE(r.stopped_early);
  EXPECT_EQ(r.history.size() % 3, 0u);
  EXPECT_EQ(r.history.size(), epochs_with_patience(r.history, 2));
}

TEST_F(Patience, GoesOnWithAResumedRunAndCanBeChanged) {
  const TrainResult whole = train(tiny_net, options("whole"));
  for (const int calls : {3, 9, 14}) {
    const std::string run = "stopped" + std::to_string(calls);
    StopAfter stop(calls);
    ASSERT_TRUE(train(tiny_net, options(run), &stop).interrupted);
    TrainOptions again = options(run);
    again.resume = folder(run);
    const TrainResult resumed = train(tiny_net, again);
    EXPECT_EQ(resumed.history.size(), whole.history.size());
    EXPECT_TRUE(resumed.stopped_early);
    expect_same_bits(load(folder("whole")), load(folder(run)));
  }
  TrainOptions longer = options("whole");
  longer.resume = folder("whole");
  longer.patience = 50;
  EXPECT_EQ(train(tiny_net, longer).history.size(), 30u);
}

}  // namespace
}  // namespace crossbow
