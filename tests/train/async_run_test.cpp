// Runs of asynchronous nodes: what the options say, and what a run's folder keeps.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <filesystem>
#include <fstream>

#include "core/file.h"
#include "device/device.h"
#include "support/error_text.h"
#include "support/fault.h"
#include "support/node_states.h"
#include "support/text.h"
#include "sync/async.h"
#include "train/checkpoints.h"
#include "train/nodes_config.h"
#include "train/record_json.h"
#include "train/run_config.h"
#include "train/tiny_learners.h"
#include "train/turns.h"

namespace crossbow {
namespace {

namespace fs = std::filesystem;
using testing::error_of;
using testing::expect_same_bits;
using testing::expect_says;
using testing::failed_nodes;
using testing::faulty_tiny_net;
using testing::load;
using testing::rows_learned;
using testing::step_lines;
using testing::StopAfter;
using testing::tiny_net;

class AsyncRuns : public testing::TinyLearners {
 protected:
  /// Of a run that repeats that one.
  TrainOptions replay_of(const std::string& run, const std::string& again = "again") {
    TrainOptions o = options_to_replay(folder(run));
    o.out = folder(again);
    return o;
  }
};

TEST_F(AsyncRuns, EveryAlgorithmTrainsByItsNameAlone) {
  for (const AsyncEntry& entry : async_catalogue()) {
    if (entry.uses.workers) continue;  // unlike ones: hogbatch_test.cpp
    SCOPED_TRACE(entry.name);
    for (const char* clock : {"real", "virtual"}) {
      TrainOptions o = options(std::string(entry.name) + clock, std::string(entry.name));
      o.clock = clock;
      const TrainResult r = train(tiny_net, o);
      ASSERT_EQ(r.nodes.size(), 3u);
      int64_t updates = 0;
      for (const NodeState& node : r.nodes) {
        updates += node.report.updates;
        EXPECT_GE(node.report.updates, 1);
        EXPECT_GT(node.report.busy, 0);
      }
      EXPECT_EQ(updates, 3 * 11);
      EXPECT_EQ(rows_learned(r.nodes), 3 * 176);
      EXPECT_LT(r.history.back().train_loss, r.history.front().train_loss);
      EXPECT_EQ(r.virtual_seconds.has_value(), o.clock == "virtual");
    }
  }
}

TEST_F(AsyncRuns, AReplayHasTheBitsOfTheRealRun) {
  for (const char* sync : {"gossip-push", "ad-psgd", "async-eamsgd"}) {
    SCOPED_TRACE(sync);
    const std::string run = std::string("live-") + sync, again = std::string("again-") + sync;
    train(tiny_net, options(run, sync));
    train(tiny_net, replay_of(run, again));
    expect_same_bits(load(folder(run)), load(folder(again)));
    EXPECT_EQ(read_text_file(folder(run) + "/turns", 1 << 20),
              read_text_file(folder(again) + "/turns", 1 << 20));
  }
}

TEST_F(AsyncRuns, AnInterruptedRunKeepsTheOrderOfAllItsTurns) {
  TrainOptions o = options("stopped", "sgp");
  o.clock = "real";
  for (const int calls : {3, 7, 20}) {
    StopAfter stop(calls);
    if (fs::exists(folder("stopped"))) o.resume = folder("stopped");
    EXPECT_TRUE(train(tiny_net, o, &stop).interrupted);
    // Turns that a crash kept from being counted are dropped.
    std::ofstream(folder("stopped") + "/turns", std::ios::app) << "\1\2";
  }
  train(tiny_net, o);
  train(tiny_net, replay_of("stopped"));
  expect_same_bits(load(folder("stopped")), load(folder("again")));
}

TEST_F(AsyncRuns, WhatCannotBeRepeatedIsRefused) {
  const auto replay = [&](const std::string& run) {
    return error_of([&] { train(tiny_net, replay_of(run)); });
  };
  TrainOptions o = options("sma", "sma");
  train(tiny_net, o);
  expect_says(replay("sma"), "took no turns");
  StopAfter stop(4);
  train(tiny_net, options("within", "sgp"), &stop);
  expect_says(replay("within"), "stopped within an epoch");
  train(tiny_net, options("live", "hogwild"));
  expect_says(replay("live"), "live weights, which has no order");
  train(tiny_net, options("lost", "sgp"));
  fs::resize_file(folder("lost") + "/turns", 5);
  expect_says(replay("lost"), "turns is missing or damaged");
  train(tiny_net, options("odd", "sgp"));
  std::fstream(folder("odd") + "/turns", std::ios::in | std::ios::out) << '\x50';
  expect_says(replay("odd"), "turns is missing or damaged");
  TrainOptions other = replay_of("odd");
  other.seed = 2;
  expect_says(error_of([&] { train(tiny_net, other); }), "`seed` 2: the run to repeat has 1");
}

TEST_F(AsyncRuns, ARunThatHasLostTurnsGoesOnAndSaysSo) {
  TrainOptions o = options("lost", "sgp");
  o.epochs = 1;
  train(tiny_net, o);
  fs::remove(folder("lost") + "/turns");
  o.resume = o.out;
  for (const int64_t epochs : {2, 3}) {
    o.epochs = epochs;
    StopAfter never(1 << 20);
    train(tiny_net, o, &never);
    expect_says(never.notes, "turns lacks turns before the checkpoint");
    EXPECT_FALSE(fs::exists(folder("lost") + "/turns"));
  }
}

TEST_F(AsyncRuns, AReplayOfOtherLengthIsRefused) {
  train(tiny_net, options("run", "sgp"));
  TrainOptions o = replay_of("run");
  o.epochs = 2;
  expect_says(error_of([&] { train(tiny_net, o); }), "`epochs`: the run to repeat has 3");
}

/// Counts and lines of a run by the virtual clock depend on no timing, also when it was stopped.
TEST_F(AsyncRuns, TheVirtualClockRepeatsReportsAndMetrics) {
  TrainOptions o = options("whole", "async-easgd");
  o.clock = "virtual";
  o.straggler = "0:2.5";
  const TrainResult whole = train(tiny_net, o);
  o.out = folder("again");
  train(tiny_net, o);
  EXPECT_EQ(step_lines(folder("whole")), step_lines(folder("again")));
  o.out = folder("stopped");
  StopAfter stop(16);
  train(tiny_net, o, &stop);
  o.resume = o.out;
  const TrainResult resumed = train(tiny_net, o);
  for (size_t j = 0; j < 3; ++j) {
    const NodeReport &a = whole.nodes[j].report, &b = resumed.nodes[j].report;
    EXPECT_EQ(a.updates, b.updates);
    EXPECT_EQ(a.staleness, b.staleness);
    EXPECT_EQ(a.largest_staleness, b.largest_staleness);
  }
}

/// With one worker nobody else wakes it when a stretched node's time has come.
TEST_F(AsyncRuns, OneWorkerWakesForStretchedNodes) {
  TrainOptions o = options("stretched", "downpour", 2);
  o.threads_per_learner = device_kind("cpu").cores;
  o.staleness = 0;
  o.straggler = "0:1.03,1:1.03";
  o.epochs = 60;
  o.out.reset();
  EXPECT_EQ(train(tiny_net, o).history.size(), 60u);
}

TEST_F(AsyncRuns, ARunWithAStretchedNodeStopsAtOnce) {
  TrainOptions o = options("slow", "sgp", 2);
  o.straggler = "1:1000000";
  StopAfter stop(5);
  EXPECT_TRUE(train(tiny_net, o, &stop).interrupted);
}

TEST_F(AsyncRuns, NodesThatNoRunHasAreRefused) {
  StopAfter stop(7);
  train(tiny_net, options("run", "sgp"), &stop);
  const nlohmann::json good = to_json(load(folder("run")).position);
  EXPECT_NO_THROW(position_from_json(good));
  for (const auto& [key, value] : std::vector<std::pair<std::string, nlohmann::json>>{
           {"mass", 0}, {"lr", -1}, {"held", true}, {"updates_before", -1}, {"time", -1}}) {
    nlohmann::json bad = good;
    for (auto& node : bad["nodes"]) node["stepping"] = true, node[key] = value;
    EXPECT_ANY_THROW(position_from_json(bad)) << key;
  }
  for (const auto& [key, value] : std::vector<std::pair<std::string, nlohmann::json>>{
           {"open_batches", 3}, {"virtual_ends", {-1}}, {"virtual_exchange", -1}}) {
    nlohmann::json bad = good;
    bad[key] = value;
    EXPECT_ANY_THROW(position_from_json(bad)) << key;
  }
  nlohmann::json without_nodes = good;
  for (auto& node : without_nodes["nodes"]) {
    node["stepping"] = node["held"] = false;
    node["failed"] = true;
  }
  EXPECT_ANY_THROW(position_from_json(without_nodes));
}

/// As when two ranks had a learner each, and one process goes on.
TEST_F(AsyncRuns, AnIterationOfMoreNodesEndsWithThem) {
  TrainOptions o = options("run", "gossip-pull");
  StopAfter stop(7);
  train(tiny_net, o, &stop);
  Checkpoint checkpoint = load(folder("run"));
  ASSERT_EQ(checkpoint.position.open_batches, 1);
  checkpoint.position.ranks = 2;
  checkpoint.position.arrangement.learners = 1;
  save_checkpoint(folder("run"), checkpoint);
  o.resume = o.out;
  StopAfter at_once(0);
  EXPECT_TRUE(train(tiny_net, o, &at_once).interrupted);
  EXPECT_EQ(load(folder("run")).position.open_batches, 0);
}

/// Fails the first tries of batches 6 and 7 of the second epoch.
class TwoFailures {
 public:
  explicit TwoFailures(int tries) : left_{tries, tries} {}
  void operator()(int64_t epoch, int64_t sample) {
    if (epoch != 1 || (sample != 6 * 16 && sample != 7 * 16)) return;
    if (left_[static_cast<size_t>(sample / 16 - 6)]-- > 0) fail("no luck");
  }

 private:
  std::array<std::atomic<int>, 2> left_;
};

TEST_F(AsyncRuns, NodesThatFailAreToldAndStayAway) {
  for (const char* sync : {"sgp", "hogwild", "async-easgd"}) {
    SCOPED_TRACE(sync);
    TwoFailures failures(1);
    const testing::WithFaults faults(std::ref(failures));
    TrainOptions o = options(sync, sync, 4);
    o.epochs = 2;
    StopAfter never(1 << 20);
    EXPECT_EQ(failed_nodes(train(faulty_tiny_net, o, &never).nodes).size(), 2u);
    expect_says(never.notes, "has failed and goes no further; another takes its batch: no luck");
    o.epochs = 4;
    o.resume = o.out;
    const TrainResult r = train(faulty_tiny_net, o);
    EXPECT_EQ(failed_nodes(r.nodes).size(), 2u);
    EXPECT_EQ(rows_learned(r.nodes), 4 * 176);
    EXPECT_LT(r.history.back().train_loss, r.history.front().train_loss);
    expect_says(error_of([&] { options_to_replay(folder(sync)); }), "a node has failed");
  }
}

TEST_F(AsyncRuns, ABatchThatFailsTwiceLeavesTheLastCheckpoint) {
  TrainOptions o = options("run", "gossip-push");
  {
    TwoFailures failures(2);
    const testing::WithFaults faults(std::ref(failures));
    const std::string error = error_of([&] { train(faulty_tiny_net, o); });
    expect_says(error, "has failed twice");
    expect_says(error, "keeps the checkpoint of epoch 1");
  }
  o.resume = o.out;
  EXPECT_EQ(train(faulty_tiny_net, o).history.size(), 3u);
}

TEST_F(AsyncRuns, OptionsWithoutUseAreRefused) {
  const auto staleness = [](TrainOptions& o) { o.staleness = 2; };
  const auto probability = [](TrainOptions& o) { o.gossip_probability = 0.5; };
  const auto real = [](TrainOptions& o) { o.clock = "real"; };
  expect_says(refusal("hogwild", staleness), "has no server");
  expect_says(refusal("sma", staleness), "wait for each other");
  expect_says(refusal("none", staleness), "learners");
  expect_says(refusal("hogwild", probability), "no use");
  expect_says(refusal("sma", probability), "wait for each other");
  expect_says(refusal("downpour", [](TrainOptions& o) { o.staleness = -1; }), "at least 0");
  for (const char* sync : {"sma", "none", "hogwild"}) {
    expect_says(refusal(sync, [](TrainOptions& o) { o.merge = "overwrite"; }), "`merge`");
  }
  const auto lease = [](TrainOptions& o) { o.lease = 1; };
  expect_says(refusal("sma", lease), "wait for each other");
  expect_says(refusal("sgp", [](TrainOptions& o) { o.lease = 0; }), "above 0 seconds");
  expect_says(refusal("sgp", [&](TrainOptions& o) { lease(o), o.clock = "virtual"; }),
              "choose `clock` real");
  expect_says(refusal("sgp", [&](TrainOptions& o) { lease(o), o.deterministic = true; }),
              "leave `deterministic` out");
  expect_says(refusal("sgp", [&](TrainOptions& o) { lease(o), o.device = "late"; }),
              "on late a step that has begun cannot be given up");
  expect_says(refusal("sgp", [](TrainOptions& o) { o.clock = "wall"; }), "knows real and virtual");
  expect_says(refusal("sgp", [&](TrainOptions& o) { real(o), o.deterministic = true; }),
              "leave `clock` out");
  expect_says(refusal("sgp", [](TrainOptions& o) { o.straggler = "3:2"; }), "they are 0 to 2");
  expect_says(refusal("sgp", [](TrainOptions& o) { o.straggler = "-1:2"; }), "there is no node -1");
  expect_says(refusal("sgp", [](TrainOptions& o) { o.straggler = "0:4,0:2"; }),
              "`straggler` 0:4,0:2: node 0 stands there twice");
  expect_says(refusal("sgp", [](TrainOptions& o) { o.straggler = "1:0.5"; }), "1 to 1000000 times");
  for (const char* text : {"1", "1:", ":2", "1:2:3", "a:2", "1:2,", "1:nan"}) {
    expect_says(refusal("sgp", [&](TrainOptions& o) { o.straggler = text; }), "`straggler`");
  }
  expect_says(refusal("sma", [](TrainOptions& o) { o.straggler = "1:2"; }), "add `clock` virtual");
  expect_says(refusal("sgp", [](TrainOptions& o) { o.sync_period = 1000; }), "never agree");
  expect_says(refusal("sgp", [](TrainOptions& o) { o.device = "cpu:0,cpu:1", o.learners = 1; }),
              "of one device");
  expect_says(refusal("sgp", [](TrainOptions& o) { o.lr_scaling = "adascale"; }), "not measured");
}

TEST_F(AsyncRuns, AResumedRunNeedsAUseForALease) {
  TrainOptions o = options("waits", "sma");
  o.learners = 2;
  train(tiny_net, o);
  o.resume = o.out;
  o.epochs = *o.epochs + 1;
  o.lease = 1;
  expect_says(error_of([&] { train(tiny_net, o); }), "wait for each other");
}

/// With clipping, or a batch in parts, an update needs the whole gradient first.
TEST_F(AsyncRuns, HogwildWithAClipNormHasAnOrder) {
  TrainOptions o = options("clipped", "hogwild");
  o.clip_norm = 1;
  train(tiny_net, o);
  EXPECT_TRUE(fs::exists(folder("clipped") + "/turns"));
  train(tiny_net, replay_of("clipped"));
  expect_same_bits(load(folder("clipped")), load(folder("again")));
}

TEST_F(AsyncRuns, LiveHogwildGoesOnFromWhereItWasStopped) {
  for (const char* device : {"cpu", "ref"}) {
    TrainOptions o = options(device, "hogwild");
    o.device = device;
    StopAfter stop(9);
    EXPECT_TRUE(train(tiny_net, o, &stop).interrupted);
    o.resume = o.out;
    const TrainResult r = train(tiny_net, o);
    int64_t updates = 0;
    for (const NodeState& node : r.nodes) updates += node.report.updates;
    EXPECT_EQ(updates, 3 * 11);
    EXPECT_LT(r.history.back().train_loss, r.history.front().train_loss);
  }
}

/// Their time is that of the slowest, step by step; a node that waits for nobody is not held up.
TEST_F(AsyncRuns, TheVirtualClockTellsWhoWaitsForWhom) {
  const auto time = [&](const std::string& sync) {
    TrainOptions o = options("time-" + sync, sync);
    o.clock = "virtual";
    o.straggler = "1:4";
    o.epochs = 1;
    return *train(tiny_net, o).history.back().virtual_time;
  };
  const double together = time("ssgd"), apart = time("async-easgd");
  EXPECT_NEAR(together, 4 * 4, 1.6);  // eleven batches are four steps of three learners
  EXPECT_LT(apart, 0.6 * together);
}

TEST_F(AsyncRuns, VirtualTimeGoesOnInAResumedRun) {
  TrainOptions o = options("whole", "sma");
  o.clock = "virtual";
  const double whole = *train(tiny_net, o).history.back().virtual_time;
  o.out = folder("parts");
  o.epochs = 1;
  train(tiny_net, o);
  o.resume = o.out;
  o.epochs = 3;
  EXPECT_DOUBLE_EQ(*train(tiny_net, o).history.back().virtual_time, whole);
}

TEST(AsyncArrangement, OneNodeACore) {
  TrainOptions o;
  o.sync = "sgp";
  o.data = "digits";
  const RunConfig config = resolve(o, Recipe{});
  ASSERT_EQ(config.teams.size(), 1u);
  EXPECT_EQ(config.teams[0].arrangement.threads, 1);
  EXPECT_EQ(config.teams[0].arrangement.learners, device_kind("cpu").cores);
}

}  // namespace
}  // namespace crossbow
