#include "train/train.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "support/error_text.h"
#include "support/text.h"
#include "train/checkpoint.h"
#include "train/config.h"
#include "train/tiny_run.h"

namespace crossbow {
namespace {

using testing::error_of;
using testing::expect_says;
using testing::tiny_net;
using testing::tiny_options;
using testing::TinyData;

class Train : public ::testing::Test {
 protected:
  TrainOptions options() const { return tiny_options(data_, "ref"); }
  std::filesystem::path folder() const { return runs_.path() / "run"; }

  TinyData data_;
  data::TemporaryFolder runs_;
};

TEST_F(Train, LearnsAndTells) {
  TrainOptions o = options();
  o.epochs = 12;
  o.eval_every = 5;
  const TrainResult r = train(tiny_net, o);
  ASSERT_EQ(r.history.size(), 12u);
  EXPECT_LT(r.history.back().train_loss, 0.7 * r.history.front().train_loss);
  EXPECT_GT(*r.final_test_accuracy, 0.5);
  EXPECT_GE(*r.best_test_accuracy, *r.final_test_accuracy);
  for (const EpochRecord& e : r.history) {
    EXPECT_EQ(e.test_accuracy.has_value(), e.epoch % 5 == 0 || e.epoch == 12) << e.epoch;
  }
  // conv 5·9, batch norm 2·5, dense 10·(5·4·4) + 10
  EXPECT_EQ(r.parameters, 45 + 10 + 810);
  EXPECT_FALSE(r.epochs_to_target);
}

/// A mean over time is no place to go back to whenever the rate decays a little.
TEST_F(Train, ASlowDecayGoesOnFromWhatWasLearned) {
  std::map<std::string, double> losses;
  for (const char* schedule : {"fixed", "step"}) {
    TrainOptions o = options();
    o.sync = "sma";
    o.learners = 1;
    o.epochs = 12;
    o.lr_schedule = schedule;
    o.lr_milestones.reset();
    if (schedule == std::string_view("step")) {
      o.lr_milestones = {{1}};
      o.lr_gamma = 0.999999;
    }
    losses[schedule] = train(tiny_net, o).history.back().train_loss;
  }
  EXPECT_NEAR(losses["step"], losses["fixed"], 1e-3);
}

TEST_F(Train, LearnsByEveryLoss) {
  std::vector<double> losses;
  const auto expect_learns = [&](const char* loss, std::optional<double> smoothing, double lr) {
    TrainOptions o = options();
    o.epochs = 60;
    o.lr = lr;
    o.lr_milestones = {{50}};
    o.loss = loss;
    o.label_smoothing = smoothing;
    const TrainResult r = train(tiny_net, o);
    EXPECT_LT(r.history.back().train_loss, r.history.front().train_loss) << loss;
    EXPECT_GT(*r.final_test_accuracy, 0.3) << loss;  // of a guess 0.1
    losses.push_back(*r.final_test_loss);
  };
  expect_learns("cross-entropy", {}, 0.05);
  expect_learns("cross-entropy", 0.3, 0.05);
  expect_learns("sigmoid", {}, 0.5);  // a mean over the ten classes too
  expect_learns("mse", {}, 0.01);
  // The smoothed loss of a net that is right is far above that of the plain one.
  EXPECT_GT(losses[1], losses[0] + 0.1);
}

TEST_F(Train, SaysOnceThatNothingIsLearned) {
  TrainOptions o = options();
  o.lr = 1e-9;
  o.epochs = 4;
  testing::StopAfter watch(1000);
  train(tiny_net, o, &watch);
  const std::string says = "nothing is learned: the loss is";
  expect_says(watch.notes, says);
  EXPECT_EQ(watch.notes.find(says), watch.notes.rfind(says));
}

TEST_F(Train, StopsAtTheTarget) {
  TrainOptions o = options();
  o.epochs = 100;
  o.target_accuracy = 0.4;
  const TrainResult r = train(tiny_net, o);
  EXPECT_LT(r.history.size(), 100u);
  ASSERT_TRUE(r.epochs_to_target);
  EXPECT_EQ(*r.epochs_to_target, static_cast<int64_t>(r.history.size()));
  EXPECT_GE(*r.final_test_accuracy, 0.4);
  EXPECT_DOUBLE_EQ(*r.seconds_to_target, r.train_seconds);
}

TEST_F(Train, LeavesItsRecords) {
  TrainOptions o = options();
  o.out = folder().string();
  const TrainResult r = train(tiny_net, o);
  std::ifstream metrics(folder() / "metrics.jsonl");
  int steps = 0, epochs = 0;
  for (std::string line; std::getline(metrics, line);) {
    const auto json = nlohmann::json::parse(line);
    if (json.contains("step")) {
      ++steps;
      EXPECT_GT(json.at("loss").get<double>(), 0);
    } else {
      EXPECT_EQ(json.at("train_loss").get<double>(), r.history[epochs].train_loss);
      ++epochs;
    }
  }
  EXPECT_EQ(steps, 7);  // of 15, every second
  EXPECT_EQ(epochs, 3);
  TrainOptions again;
  apply_config_file(again, (folder() / "config.toml").string());
  EXPECT_EQ(to_config(again), to_config(r.options));
  EXPECT_TRUE(std::filesystem::exists(folder() / "plan.json"));
}

TEST_F(Train, ALossThatIsNotFiniteEndsTheRun) {
  TrainOptions o = options();
  o.lr_schedule = "fixed";
  o.lr_milestones.reset();
  o.warmup = 0;
  o.lr = 1e30;
  const std::string error = error_of([&] { train(tiny_net, o); });
  expect_says(error, "the loss became ");
  expect_says(error, "(epoch 1): the learning rate 1e+30 is probably too high");
  expect_says(error, "try `lr` 1e+29 or `clip-norm` 1");
}

TEST_F(Train, ALossThatIsNotFiniteLeavesTheLastGoodCheckpoint) {
  TrainOptions o = options();
  o.lr_milestones = {{1}};
  o.lr_gamma = 1e30;
  o.out = folder().string();
  expect_says(error_of([&] { train(tiny_net, o); }), "keeps the checkpoint of epoch 1");
  const Checkpoint kept = load_checkpoint(folder(), [](std::string_view) {});
  EXPECT_EQ(kept.position.epoch, 1);
  for (const auto& t : kept.tensors) {
    for (const float v : t.values()) ASSERT_LT(std::abs(v), 100) << t.name;
  }
}

TEST_F(Train, DataThatIsNotFiniteIsBlamedAtOnce) {
  TrainOptions o = options();
  const auto exploding = [](Tensor x) {
    return dense(dense(x, Dense{.outputs = 4, .weight_init = Initialiser::constant(1e30f)}),
                 Dense{.outputs = 10, .weight_init = Initialiser::constant(1e30f)});
  };
  expect_says(error_of([&] { train(exploding, o); }),
              "at step 1 (epoch 1), before anything was learned");
}

TEST_F(Train, RefusesWhatDoesNotFit) {
  TrainOptions o = options();
  const auto eleven = [](Tensor x) { return dense(x, Dense{.outputs = 11}); };
  expect_says(
      error_of([&] { train(eleven, o); }),
      "the model 'own' ends in shape [16, 11], but a batch of 16 in 10 classes needs [16, 10]");
  o.batch = 71;
  expect_says(error_of([&] { train(tiny_net, o); }), "`batch` 71");
  expect_says(error_of([&] { train(tiny_net, o); }), "70 training images only");
}

TEST_F(Train, OneBatchCanHoldAll) {
  TrainOptions o = options();
  o.batch = 70;
  EXPECT_EQ(train(tiny_net, o).history.size(), 3u);
}

TEST_F(Train, SaysThatAFolderCannotBeWritten) {
  TrainOptions o = options();
  o.out = "/proc/crossbow";
  expect_says(error_of([&] { train(tiny_net, o); }), "choose another with `out`");
  std::ofstream(folder()) << "a file";
  o.out = folder().string();
  expect_says(error_of([&] { train(tiny_net, o); }), "cannot make the folder");
}

/// After the last update of an epoch, or when the run is stopped, nobody looks at a loss.
TEST_F(Train, WeightsThatAreNotFiniteAreNeverSaved) {
  for (const bool stopped : {false, true}) {
    TrainOptions o = options();
    o.out = folder().string() + (stopped ? "stopped" : "");
    o.lr_milestones = {{stopped ? 1.65 : 1.9}};  // of the fourth, the fifth step of epoch 2
    o.lr_gamma = 1e45;
    o.eval_every = 100;
    testing::StopAfter stop(stopped ? 9 : 1000);
    const std::string error = error_of([&] { train(tiny_net, o, &stop); });
    expect_says(error, std::string("the weights are infinite or NaN after step ") +
                           (stopped ? "9:" : "10:"));
    expect_says(error, "keeps the checkpoint of epoch 1");
    const Checkpoint kept = load_checkpoint(*o.out, [](std::string_view) {});
    EXPECT_EQ(kept.position.epoch, 1);
    for (const auto& t : kept.tensors) {
      for (const float v : t.values()) ASSERT_LT(std::abs(v), 100) << t.name;
    }
  }
}

/// As many learners as have a batch.
TEST_F(Train, DeterministicAsksForNoMoreLearnersThanBatches) {
  TrainOptions o = options();
  o.sync = "sma";
  o.batch = 70;
  EXPECT_EQ(train(tiny_net, o).arrangement.learners, 1);
}

/// Asks for time before each iteration.
class Slow : public Observer {
 public:
  explicit Slow(int stop_after) : left_(stop_after) {}
  bool stop_requested() override {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return left_-- <= 0;
  }

 private:
  std::atomic<int> left_;
};

/// An epoch's time is that of all its segments, the run's that of all its processes.
TEST_F(Train, TimesAddUp) {
  TrainOptions o = options();
  o.epochs = 1;
  o.lr_milestones = {{0.5}};  // cuts the epoch
  Slow slow(1000);
  EXPECT_GE(train(tiny_net, o, &slow).history[0].seconds, 5 * 0.02);

  o.out = folder().string();
  Slow stops(3);
  const TrainResult first = train(tiny_net, o, &stops);
  EXPECT_TRUE(first.interrupted);
  o.resume = o.out;
  const TrainResult whole = train(tiny_net, o, &slow);
  EXPECT_GE(whole.history[0].seconds, 5 * 0.02);
  EXPECT_GE(whole.train_seconds, first.train_seconds + 2 * 0.02);
  EXPECT_GE(whole.seconds, first.seconds + 2 * 0.02);
  EXPECT_GE(whole.seconds, whole.train_seconds);
}

}  // namespace
}  // namespace crossbow
