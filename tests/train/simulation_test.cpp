// Runs on the virtual clock whose steps, messages and failures take seconds.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "support/error_text.h"
#include "support/node_states.h"
#include "support/odd_files.h"
#include "support/text.h"
#include "sync/sync.h"
#include "train/checkpoints.h"
#include "train/clock_config.h"
#include "train/tiny_learners.h"

namespace crossbow {
namespace {

using testing::error_of;
using testing::expect_same_bits;
using testing::expect_says;
using testing::failed_nodes;
using testing::load;
using testing::rows_learned;
using testing::StopAfter;
using testing::tiny_net;

/// Of nodes whose steps take 0.1 s and whose messages take up to another one.
class Simulation : public testing::TinyLearners {
 protected:
  TrainOptions options(const std::string& run, const std::string& sync,
                       int64_t nodes = 3) override {
    TrainOptions o = TinyLearners::options(run, sync, nodes);
    o.clock = "virtual";
    o.step_times = "uniform:0.1:0.3";
    o.latency = 0.02;
    o.bandwidth = 1e5;
    return o;
  }
};

TEST_F(Simulation, GoesOnToTheBitWithMessagesUnderWay) {
  for (const char* sync : {"gossip-pull", "gossip-push", "sgp", "ad-psgd", "async-easgd", "sma"}) {
    SCOPED_TRACE(sync);
    const std::string whole = std::string("whole-") + sync, parts = std::string("parts-") + sync;
    TrainOptions o = options(whole, sync);
    if (std::string(sync) != "sma") o.fail = "1:0.4";
    const TrainResult expected = train(tiny_net, o);
    ASSERT_TRUE(expected.virtual_seconds);
    EXPECT_EQ(expected.history.back().virtual_seconds, expected.virtual_seconds);
    EXPECT_EQ(failed_nodes(expected.nodes).size(), std::string(sync) == "sma" ? 0u : 1u);

    o.out = folder(parts);
    for (const int calls : {3, 8, 17}) {
      StopAfter stop(calls);
      train(tiny_net, o, &stop);
      o.resume = o.out;
    }
    const TrainResult r = train(tiny_net, o);
    EXPECT_EQ(r.virtual_seconds, expected.virtual_seconds);
    expect_same_bits(load(folder(whole)), load(folder(parts)));
  }
}

/// An epoch of ssgd is four steps of the slowest of three learners, each with a sum of 0.09 s.
TEST_F(Simulation, TellsSecondsOfLearnersThatWait) {
  TrainOptions o = options("waits", "ssgd");
  o.step_times = "constant:0.1";
  o.straggler = "1:2";
  const TrainResult slow = train(tiny_net, o);
  const double message = 4 * static_cast<double>(slow.parameters) / *o.bandwidth;
  const double sum = 2 * (*o.latency + message * 2 / 3);
  EXPECT_NEAR(*slow.virtual_seconds, 3 * 4 * (0.2 + sum), 1e-9);
}

TEST_F(Simulation, OfAFreeNetworkHasTheBitsOfTheVirtualClock) {
  for (const char* sync : {"gossip-push", "async-easgd", "sma"}) {
    TrainOptions o = options(std::string("free-") + sync, sync);
    o.step_times = "lognormal:5:0.1";
    o.bandwidth.reset();
    o.latency = 0;
    train(tiny_net, o);
    TrainOptions plain = options(std::string("plain-") + sync, sync);
    plain.step_times.reset();
    plain.bandwidth.reset();
    plain.latency.reset();
    train(tiny_net, plain);
    const Checkpoint a = load(*o.out), b = load(*plain.out);
    for (size_t t = 0; t < b.tensors.size(); ++t) {
      if (b.tensors[t].role != Checkpoint::Role::parameter) continue;
      EXPECT_EQ(a.tensors[t].values(), b.tensors[t].values()) << sync;
    }
  }
}

/// Whatever the steps and the network, learners that wait for each other compute what they do here.
TEST_F(Simulation, OfLearnersThatWaitHasTheBitsOfTraining) {
  for (const SyncEntry& entry : sync_catalogue()) {
    const std::string sync(entry.name);
    SCOPED_TRACE(sync);
    TrainOptions o = options("simulated-" + sync, sync);
    o.straggler = "1:4";
    train(tiny_net, o);
    const TrainOptions plain = TinyLearners::options("trained-" + sync, sync, 3);
    train(tiny_net, plain);
    expect_same_bits(load(*o.out), load(*plain.out));
  }
}

TEST_F(Simulation, GoesOnFromAnotherFolderWithItsFileOfTimes) {
  const std::filesystem::path file = folder("steps.txt");
  std::ofstream(file) << "0.1\n0.2\n";
  TrainOptions o = options("recorded", "gossip-pull");
  o.step_times = "recorded:" + std::filesystem::relative(file).string();
  train(tiny_net, o);
  EXPECT_EQ(load(*o.out).options.step_times, "recorded:" + file.string());
}

TEST_F(Simulation, TellsWhoFailed) {
  TrainOptions o = options("failed", "gossip-pull");
  o.fail = "1:0.4";
  StopAfter told(1 << 20);
  train(tiny_net, o, &told);
  expect_says(told.notes, "node 1 has failed and goes no further: as `fail` says");
}

TEST_F(Simulation, OptionsWithoutUseAreRefused) {
  expect_says(refusal("gossip-pull", [](TrainOptions& o) { o.clock = "real"; }),
              "add `clock` virtual, or use crossbow simulate");
  expect_says(refusal("gossip-pull", [](TrainOptions& o) { o.step_times.reset(); }),
              "say with `step-times`");
  expect_says(refusal("sma", [](TrainOptions& o) { o.fail = "3:1"; }), "they are 0 to 2");
  expect_says(refusal("sma",
                      [](TrainOptions& o) {
                        o.fail = "1:1";
                        o.deterministic = true;
                        o.learners.reset();
                      }),
              "with `learners`");
  expect_says(refusal("sma",
                      [](TrainOptions& o) {
                        o.fail = "1:1";
                        o.device = "late:0,late:1";
                      }),
              "choose one device");
  expect_says(refusal("sma", [](TrainOptions& o) { o.learners.reset(); }), "with `learners`");
  expect_says(refusal("hogwild", [](TrainOptions&) {}), "share memory");
  expect_says(refusal("elastic-gossip", [](TrainOptions&) {}), "share memory");
  expect_says(refusal("sgp", [](TrainOptions& o) { o.latency = -1; }), "`latency` -1");
  expect_says(refusal("sgp", [](TrainOptions& o) { o.bandwidth = 0; }), "`bandwidth` 0");
  expect_says(refusal("sgp", [](TrainOptions& o) { o.fail = "3:1"; }), "they are 0 to 2");
  expect_says(refusal("sgp",
                      [](TrainOptions& o) {
                        o.fail = "1:1";
                        o.device = "cpu:0,cpu:1";
                        o.learners = 1;
                      }),
              "asynchronous nodes are of one device");
  expect_says(refusal("sgp", [](TrainOptions& o) { o.fail = "1:-1"; }), "from 0 on");
  for (const char* text : {"1", "constant", "constant:", "constant:0", "constant:1:2", "normal:1:1",
                           "uniform:1", "uniform:1:1", "uniform:1:-1", "lognormal:1:nan",
                           "lognormal:1:4", "constant:1e7", "recorded:/does/not/exist"}) {
    expect_says(refusal("sgp", [&](TrainOptions& o) { o.step_times = text; }), "`step-times`");
  }
}

TEST_F(Simulation, ReadsRecordedTimes) {
  const std::string path = (runs_.path() / "steps").string();
  std::ofstream(path) << "0.1\n0.3\n\n0.2";
  TrainOptions o;
  o.clock = "virtual";
  o.step_times = "recorded:" + path;
  const Pace pace = pace_of(o);
  EXPECT_DOUBLE_EQ(pace.step_seconds, 0.2);
  ASSERT_EQ(pace.recorded.size(), 3u);
  EXPECT_DOUBLE_EQ(pace.recorded[1], 1.5);

  std::ofstream(path) << "0.1\n-1\n";
  expect_says(error_of([&] { pace_of(o); }), "its number 2 is '-1'");
  std::ofstream(path) << "\n";
  expect_says(error_of([&] { pace_of(o); }), "there is no time in it");
  for (const auto& odd : testing::odd_files(runs_.path())) {
    o.step_times = "recorded:" + odd.path.string();
    expect_says(error_of([&] { pace_of(o); }), odd.reason);
  }
}

TEST_F(Simulation, AnEmptyPathIsRefused) {
  expect_says(refusal("sgp", [&](TrainOptions& o) { o.step_times = "recorded:"; }), "no file");
  expect_says(refusal("sgp", [&](TrainOptions& o) { o.init = ""; }), "`init`: it is empty");
}

}  // namespace
}  // namespace crossbow
