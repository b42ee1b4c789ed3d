// The number of learners may change in a run, which goes on as if nothing had happened.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "core/machine.h"
#include "support/error_text.h"
#include "train/checkpoints.h"
#include "train/learner_search.h"
#include "train/recipe.h"
#include "train/record_json.h"
#include "train/run_data.h"
#include "train/scripted_search.h"
#include "train/tiny_run.h"

namespace crossbow {
namespace {

namespace fs = std::filesystem;
using testing::error_of;
using testing::expect_same_bits;
using testing::load;
using testing::tiny_net;
using testing::tiny_options;
using testing::TinyData;
using testing::values_of;

class LearnerChanges : public ::testing::Test {
 protected:
  /// The number of learners is open, as far as the machine goes.
  TrainOptions options(const std::string& run, const std::string& sync = "sma") {
    TrainOptions o = tiny_options(data_, "cpu");
    o.out = folder(run);
    o.sync = sync;
    o.deterministic = false;
    return o;
  }
  std::string folder(const std::string& run) { return (runs_.path() / run).string(); }
  void copy(const std::string& from, const std::string& to) {
    fs::copy(folder(from), folder(to), fs::copy_options::recursive);
  }

  TinyData data_;
  data::TemporaryFolder runs_;
};

/// Stops the run once it has settled, and keeps the checkpoint that it began with.
class UntilSettled : public Observer {
 public:
  explicit UntilSettled(std::string folder) : folder_(std::move(folder)) {}
  void note(std::string_view text) override {
    notes += std::string(text) + '\n';
    if (text.starts_with("tried 1 learner ")) fs::copy_file(folder_ + "/checkpoint", first());
    if (text.starts_with("going on with")) settled_ = true;
  }
  bool stop_requested() override { return settled_; }
  std::string first() const { return folder_ + "-first"; }

  std::string notes;

 private:
  const std::string folder_;
  std::atomic<bool> settled_{false};
};

TEST_F(LearnerChanges, ARunFindsItsNumberOfLearnersAndIsReplayed) {
  if (physical_cores() == 1) GTEST_SKIP() << "one core leaves nothing to choose";
  TrainOptions o = options("run");
  o.data = "digits";  // an epoch is longer than the time to measure a throughput
  o.epochs = 1000;
  o.retune = true;  // whatever an earlier run found
  UntilSettled observer(*o.out);
  const TrainResult found = train(tiny_net, o, &observer);
  EXPECT_TRUE(found.interrupted);
  ASSERT_GE(found.tried.size(), 2u);
  EXPECT_EQ(found.tried[0].arrangement.learners, 1);
  EXPECT_GT(found.tried[1].goodput, 0);
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "tried 1 learner of 1 thread", observer.notes);
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "tried 2 learners of 1 thread", observer.notes);
  const Position settled = load(*o.out).position;
  EXPECT_TRUE(settled.settled);

  // On with the run; and again from its beginning, as after a crash.
  copy("run", "crashed");
  fs::copy_file(observer.first(), folder("crashed") + "/checkpoint",
                fs::copy_options::overwrite_existing);
  EXPECT_FALSE(load(folder("crashed")).position.settled);
  for (const char* run : {"run", "crashed"}) {
    TrainOptions again = load(folder(run)).options;
    again.retune = false;
    again.resume = again.out = folder(run);
    again.epochs = settled.epoch + 1;
    train(tiny_net, again);
  }
  expect_same_bits(load(folder("run")), load(folder("crashed")));
}

/// Learners that stay keep their weights and momentum, new ones start from the central model.
TEST_F(LearnerChanges, TheRunGoesOnWithMoreLearnersAndWithFewer) {
  for (const char* sync : {"sma", "ssgd", "local-sgd", "slowmo"}) {
    TrainOptions o = options(std::string("run") + sync, sync);
    o.learners = 3;
    o.epochs = 1;
    train(tiny_net, o);
    const auto changed = [&](const std::string& to, std::initializer_list<LearnerChange> changes) {
      copy("run" + std::string(sync), to + sync);
      for (const LearnerChange& c : changes) {
        std::ofstream(folder(to + sync) + "/learners.jsonl", std::ios::app) << to_json(c) << '\n';
      }
      TrainOptions again = load(*o.out).options;
      again.resume = again.out = folder(to + sync);
      again.epochs = 3;
      const TrainResult result = train(tiny_net, again);
      EXPECT_EQ(result.history.size(), 3u);
      return result;
    };
    const auto more = changed("more", {{1, 0, {4, 1}, false}, {2, 4, {5, 1}, true}});
    EXPECT_EQ(more.history[1].learners, 4);
    EXPECT_EQ(more.history[2].learners, 5);
    const auto fewer = changed("fewer", {{1, 3, {2, 1}, false}, {2, 0, {1, 1}, true}});
    EXPECT_EQ(fewer.history[1].learners, 2);
    EXPECT_EQ(fewer.history[2].learners, 1);
    const auto there_and_back = changed("back", {{1, 0, {5, 1}, false}, {1, 0, {3, 1}, true}});
    const auto steady = changed("steady", {});
    EXPECT_EQ(there_and_back.history[2].train_loss, steady.history[2].train_loss) << sync;
    EXPECT_EQ(load(folder(std::string("back") + sync)).position.arrangement.learners, 3);
    expect_same_bits(load(folder(std::string("back") + sync)),
                     load(folder(std::string("steady") + sync)));
  }
}

TEST_F(LearnerChanges, WhatNoRunCanHaveWrittenIsRefused) {
  TrainOptions o = options("run");
  o.learners = 2;
  o.epochs = 1;
  train(tiny_net, o);
  int number = 0;
  for (const LearnerChange& forged :
       {LearnerChange{1, 0, {3000, 1}, true}, LearnerChange{1, 4000, {2, 1}, true}}) {
    const std::string to = "forged" + std::to_string(++number);
    copy("run", to);
    std::ofstream(folder(to) + "/learners.jsonl", std::ios::app) << to_json(forged) << '\n';
    TrainOptions again = load(*o.out).options;
    again.resume = again.out = folder(to);
    again.epochs = 3;
    const std::string error = error_of([&] { train(tiny_net, again); });
    EXPECT_NE(error.find("put the file back as it was"), std::string::npos) << error;
  }
}

/// It depends on the count of exchanges, which becomes that of a run that always had so many
/// learners. Here every step has an exchange.
TEST_F(LearnerChanges, TheMeanOverTimeReachesBackAsFarWithAnyNumberOfLearners) {
  TrainOptions o = options("run");
  o.learners = 2;
  o.epochs = 2;
  train(tiny_net, o);
  EXPECT_EQ(load(*o.out).position.engine.exchanges, 2 * 3);
  const auto go_on = [&](int learners, int64_t epochs, int64_t batch = 0) {
    std::ofstream(folder("run") + "/learners.jsonl", std::ios::app)
        << to_json(LearnerChange{epochs - 1, batch, {learners, 1}, true}) << '\n';
    TrainOptions again = load(*o.out).options;
    again.resume = again.out = o.out;
    again.epochs = epochs;
    train(tiny_net, again);
    return load(*o.out).position.engine.exchanges;
  };
  EXPECT_EQ(go_on(1, 3), 3 * 5);
  EXPECT_EQ(go_on(2, 4), 4 * 3);
  EXPECT_EQ(go_on(3, 5, 2), 4 * 2 + 1 + 1);
}

/// Those made after the last checkpoint too, which would else be measured anew, and might differ.
TEST_F(LearnerChanges, ACrashedRunKeepsTheKernelsThatItHadChosen) {
  TrainOptions o = options("run");
  o.learners = 1;
  o.epochs = 1;
  train(tiny_net, o);
  const std::string plan = *o.out + "/plan.json";
  nlohmann::json chosen = nlohmann::json::parse(std::ifstream(plan));
  chosen["a layer on three threads"] = "the fastest";
  std::ofstream(plan) << chosen;
  o.resume = o.out;
  o.epochs = 2;
  train(tiny_net, o);
  EXPECT_EQ(load(*o.out).plan["a layer on three threads"], "the fastest");
  EXPECT_EQ(nlohmann::json::parse(std::ifstream(plan)), chosen);
}

/// However often the run is stopped, or falls back to its first checkpoint, in between.
TEST_F(LearnerChanges, ChangesAheadAreNeverForgotten) {
  TrainOptions o = options("run");
  o.learners = 2;
  o.epochs = 1;
  train(tiny_net, o);
  const LearnerChange changes[] = {{1, 2, {3, 1}, false}, {2, 0, {1, 1}, true}};
  for (const LearnerChange& c : changes) {
    std::ofstream(*o.out + "/learners.jsonl", std::ios::app) << to_json(c) << '\n';
  }
  const auto go_on = [&](const std::string& run, Observer* observer) {
    TrainOptions again = options(run);
    again.learners = 2;
    again.resume = folder(run);
    train(tiny_net, again, observer);
  };
  for (const char* run : {"whole", "stopped", "crashed"}) copy("run", run);
  go_on("whole", nullptr);
  for (int calls = 1; calls < 8; ++calls) {
    testing::StopAfter stop(calls);
    go_on("stopped", &stop);
    testing::StopAfter again(calls);
    go_on("crashed", &again);
    fs::copy_file(folder("run") + "/checkpoint", folder("crashed") + "/checkpoint",
                  fs::copy_options::overwrite_existing);
  }
  for (const char* run : {"stopped", "crashed"}) {
    go_on(run, nullptr);
    expect_same_bits(load(folder("whole")), load(folder(run)));
  }
  EXPECT_EQ(load(folder("crashed")).position.arrangement.learners, 1);
}

/// Where a run stands before and after a change between its first two epochs.
struct BeforeAndAfter {
  Checkpoint before, after;
};

class OneLearnerChange : public LearnerChanges {
 protected:
  BeforeAndAfter change(const std::string& sync, int64_t from, int to) {
    TrainOptions o = options(sync + std::to_string(from), sync);
    o.learners = from;
    o.epochs = 1;
    train(tiny_net, o);
    const Checkpoint before = load(*o.out);
    std::ofstream(*o.out + "/learners.jsonl", std::ios::app)
        << to_json(LearnerChange{1, 0, {to, 1}, true}) << '\n';
    o.resume = o.out;
    o.epochs = 2;
    testing::StopAfter at_once(0);
    train(tiny_net, o, &at_once);
    return {before, load(*o.out)};
  }
};

TEST_F(OneLearnerChange, ANewLearnerStartsFromTheCentralModelWithoutMomentum) {
  using Role = Checkpoint::Role;
  const auto [before, after] = change("sma", 2, 3);
  const auto z = values_of(before, Role::parameter, 0);
  const std::vector<float> zeros(z.size());
  EXPECT_EQ(values_of(after, Role::weights, 2), z);
  EXPECT_EQ(values_of(after, Role::slot, 2), zeros);
  EXPECT_EQ(values_of(after, Role::weights, 1), values_of(before, Role::weights, 1));
  EXPECT_EQ(values_of(after, Role::slot, 1), values_of(before, Role::slot, 1));
  EXPECT_NE(values_of(after, Role::slot, 1), zeros);
}

/// A learner alone has no central model before its first exchange.
TEST_F(OneLearnerChange, ANewLearnerStartsWhereTheOneIsThatHasNotExchanged) {
  using Role = Checkpoint::Role;
  TrainOptions o = options("run");
  o.learners = 1;
  o.sync_period = 6;
  testing::StopAfter in_first_epoch(3);
  train(tiny_net, o, &in_first_epoch);
  const Checkpoint before = load(*o.out);
  ASSERT_GT(before.position.batch, 0);
  ASSERT_EQ(before.position.engine.exchanges, 0);
  std::ofstream(*o.out + "/learners.jsonl", std::ios::app)
      << to_json(LearnerChange{0, before.position.batch, {2, 1}, true}) << '\n';
  o.resume = o.out;
  testing::StopAfter at_once(0);
  train(tiny_net, o, &at_once);
  const Checkpoint after = load(*o.out);
  const auto alone = values_of(before, Role::weights, 0);
  EXPECT_NE(values_of(before, Role::parameter, 0), alone);
  EXPECT_EQ(values_of(after, Role::weights, 0), alone);
  EXPECT_EQ(values_of(after, Role::weights, 1), alone);
}

TEST_F(OneLearnerChange, TheMeanOverTimeStays) {
  for (const auto& [from, to] : {std::pair{1, 2}, {2, 1}, {3, 2}}) {
    const auto [before, after] = change("sma", from, to);
    const auto z = values_of(before, Checkpoint::Role::parameter, 0);
    EXPECT_NE(z, values_of(before, Checkpoint::Role::weights, 0));
    EXPECT_EQ(z, values_of(after, Checkpoint::Role::parameter, 0));
    EXPECT_GT(after.position.engine.exchanges, 0);
  }
}

/// Synchronous learners have one momentum, which is that of a learner alone.
TEST_F(OneLearnerChange, SynchronousLearnersPassTheirMomentumOn) {
  using Role = Checkpoint::Role;
  const auto [alone, two] = change("ssgd", 1, 2);
  EXPECT_EQ(values_of(two, Role::slot, 0), values_of(alone, Role::slot, 0));
  EXPECT_NE(values_of(two, Role::slot, 0),
            std::vector<float>(values_of(alone, Role::parameter, 0).size()));
}

TEST_F(OneLearnerChange, ALearnerThatStaysAloneKeepsTheirMomentum) {
  using Role = Checkpoint::Role;
  const auto [two, alone] = change("ssgd", 2, 1);
  EXPECT_EQ(values_of(alone, Role::slot, 0), values_of(two, Role::slot, 0));
}

/// Learners that wait for each other and never exchange would leave the model as it was.
TEST_F(LearnerChanges, OnlyNumbersThatExchangeAreTried) {
  if (physical_cores() == 1) GTEST_SKIP() << "one core leaves nothing to choose";
  TrainOptions o = options("run", "local-sgd");
  const auto teams_with = [&](int64_t period, const Checkpoint* from) {
    o.sync_period = period;
    const RunConfig config = resolve(o, Recipe{});
    return fitted(config, *data::open_dataset(*o.data), from).teams.size();
  };
  Checkpoint resumed;
  resumed.position.arrangement = {1, 1};
  for (const Checkpoint* from : {static_cast<Checkpoint*>(nullptr), &resumed}) {
    EXPECT_GT(teams_with(6, from), 1u);
    EXPECT_EQ(teams_with(1000, from), 1u);
  }
}

class NoisySearch : public testing::ScriptedSearch {
 protected:
  NoisySearch() {
    TrainOptions o = options("run", 1);
    o.tune_for = "goodput";
    o.threads_per_learner = 1;
    o.retune = false;
    config_ = resolve(o, Recipe{});
    graph_ = classifier(kOwnModel, tiny_net,
                        spec_of(data::open_dataset(*o.data)->info, config_.batch, config_.loss));
  }

  LearnerSearch search() { return {config_, graph_, memory_, script_, silent_}; }

  /// What a search settles on where two learners are twice as fast.
  Arrangement found(std::optional<double> noise_scale) {
    LearnerSearch search = this->search();
    search.resume({1, 1}, /*settled=*/false, {}, noise_scale);
    return settled_on(search);
  }
  static Arrangement settled_on(LearnerSearch& search) {
    Arrangement now{1, 1};
    search.limit(2);
    for (int64_t segment = 0; !search.settled() && segment < 1000; ++segment) {
      search.begin_segment();
      search.progress(5);
      const auto change = search.due({0, segment}, /*settled=*/false);
      if (!change) continue;
      now = change->arrangement;
      search.made(*change);
    }
    EXPECT_TRUE(search.settled());
    return now;
  }

  RunConfig config_;
  Graph graph_;
  Tuner memory_{std::filesystem::path{}};
  testing::Script script_{testing::kTwoAreFaster};
  Observer silent_;
};

/// Where gradients hardly differ, twice the images count for little more.
TEST_F(NoisySearch, AResumedOneKnowsTheNoise) {
  EXPECT_EQ(found({}).learners, 2);
  EXPECT_EQ(found(1).learners, 1);
}

TEST_F(NoisySearch, ASettledOneLooksAgainAsTheNoiseGrowsAlsoWhenResumed) {
  ASSERT_EQ(found(1).learners, 1);
  LearnerSearch resumed = search();
  resumed.resume({1, 1}, /*settled=*/true, {}, 1);
  EXPECT_FALSE(resumed.due({1, 0}, /*settled=*/true));
  resumed.reconsider(1e6);
  EXPECT_EQ(settled_on(resumed).learners, 2);
  EXPECT_EQ(search().start().learners, 1);  // of runs to come, which begin with less noise
}

TEST_F(LearnerChanges, MoreLearnersThanTheMemoryHoldsAreRefused) {
  TrainOptions o = options("run");
  o.learners = 5;  // one a batch
  o.sync = "sma";
  EXPECT_NO_THROW(train(tiny_net, o));
  o.out = folder("large");
  const auto huge = [&](Tensor x) {
    return dense(dense(dense(x, Dense{.outputs = 60000}), Dense{.outputs = 60000}),
                 Dense{.outputs = 10});
  };
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "and this process may take",
                      error_of([&] { train(huge, o); }));
}

}  // namespace
}  // namespace crossbow
