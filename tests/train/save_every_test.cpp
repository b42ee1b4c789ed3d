// Checkpoints within an epoch: a run that saves has the bits of one that does not, and goes on from
// each of them as if nothing had ended it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "device/device.h"
#include "support/error_text.h"
#include "support/node_states.h"
#include "support/text.h"
#include "sync/async.h"
#include "sync/sync.h"
#include "train/checkpoints.h"
#include "train/nodes_config.h"
#include "train/record_json.h"
#include "train/tiny_learners.h"

namespace crossbow {
namespace {

namespace fs = std::filesystem;
using testing::error_of;
using testing::expect_same_bits;
using testing::expect_says;
using testing::load;
using testing::rows_learned;
using testing::step_lines;
using testing::tiny_net;

constexpr double kAlways = 1e-9;  // minutes: a save after every iteration

/// Copies the folder of a run that has saved within an epoch, as kill -9 would leave it: at every
/// third such place.
class Copies : public Observer {
 public:
  explicit Copies(std::string run) : run_(std::move(run)) {}

  bool stop_requested() override {
    const std::lock_guard lock(mutex_);
    if (!fs::exists(run_ + "/checkpoint")) return false;  // kernels are timed
    const Position p = load_checkpoint_header(run_, [](std::string_view) {}).position;
    const std::pair place(p.epoch, p.batch);
    if (p.batch == 0 || std::exchange(last_, place) == place) return false;
    if (places_++ % 3 == 0 && folders.size() < 4) {
      folders.push_back(fmt::format("{}-{}", run_, folders.size()));
      fs::copy(run_, folders.back(), fs::copy_options::recursive);
    }
    return false;
  }

  std::vector<std::string> folders;

 private:
  const std::string run_;
  std::mutex mutex_;
  std::pair<int64_t, int64_t> last_;
  int places_ = 0;
};

class SaveEvery : public testing::TinyLearners {
 protected:
  /// Runs as the options say, without saves within an epoch and with them, and goes on with copies.
  void expect_the_same(TrainOptions o) {
    o.epochs = 2;
    const TrainResult whole = train(tiny_net, o);
    TrainOptions saves = o;
    saves.out = *o.out + "-saves";
    saves.save_every = kAlways;
    Copies copies(*saves.out);
    expect_same(*o.out, whole, *saves.out, train(tiny_net, saves, &copies));
    EXPECT_GE(copies.folders.size(), 2u);
    for (const std::string& copy : copies.folders) {
      SCOPED_TRACE(copy);
      TrainOptions again = o;
      again.out = again.resume = copy;
      expect_same(*o.out, whole, copy, train(tiny_net, again));
    }
  }
  static void expect_same(const std::string& run_a, const TrainResult& a, const std::string& run_b,
                          const TrainResult& b) {
    expect_same_bits(load(run_a), load(run_b));
    EXPECT_EQ(step_lines(run_a), step_lines(run_b));
    ASSERT_EQ(a.history.size(), b.history.size());
    for (size_t e = 0; e < a.history.size(); ++e) {
      nlohmann::json epochs[] = {to_json(a.history[e]), to_json(b.history[e])};
      for (auto& epoch : epochs) {
        for (const char* key : {"seconds", "images_per_second", "goodput"}) epoch.erase(key);
      }
      EXPECT_EQ(epochs[0], epochs[1]);
    }
  }
};

TEST_F(SaveEvery, LearnersThatWaitKeepTheirBits) {
  std::vector<std::string> algorithms{"none"};
  for (const SyncEntry& entry : sync_catalogue()) algorithms.emplace_back(entry.name);
  for (const std::string& sync : algorithms) {
    for (const int64_t period : {0, 3}) {
      SCOPED_TRACE(fmt::format("{} {}", sync, period));
      const bool none = sync == "none";
      if (period > 0 && (none || sync == "ssgd")) continue;
      TrainOptions o = options(fmt::format("{}-{}", sync, period), sync, none ? 1 : 2);
      if (period > 0) o.sync_period = period;
      expect_the_same(o);
    }
  }
}

TEST_F(SaveEvery, DevicesKeepTheirBits) {
  for (const char* device : {"late:0,late:1", "ref"}) {
    for (const char* sync : {"sma", "sma-paper"}) {
      SCOPED_TRACE(fmt::format("{} {}", device, sync));
      TrainOptions o = options(fmt::format("{}-{}", device, sync), sync, 2);
      o.device = device;
      expect_the_same(o);
    }
  }
}

TEST_F(SaveEvery, TheNoiseScaleIsThatOfOneRun) {
  TrainOptions o = options("adascale", "sma");
  o.momentum = 0.9;
  o.lr_scaling = "adascale";
  expect_the_same(o);
}

TEST_F(SaveEvery, NodesOnTheVirtualClockKeepTheirBits) {
  for (const AsyncEntry& entry : async_catalogue()) {
    if (entry.uses.workers) continue;
    SCOPED_TRACE(entry.name);
    TrainOptions o = options(std::string(entry.name), std::string(entry.name));
    o.clock = "virtual";
    o.straggler = "0:2.5";
    expect_the_same(o);
  }
}

TEST_F(SaveEvery, UnlikeWorkersOnTheVirtualClockKeepTheirBits) {
  for (const char* sync : {"hogbatch", "adaptive-hogbatch", "adaptive-sgd"}) {
    SCOPED_TRACE(sync);
    TrainOptions o = options(sync, sync);
    o.learners.reset();
    o.threads_per_learner.reset();
    o.clock = "virtual";
    o.worker = std::string(sync) == "adaptive-sgd" ? "replica:batch=2-8 replica:batch=4-16"
                                                   : "live:threads=2,batch=2-8 replica:batch=16-32";
    expect_the_same(o);
  }
}

/// With messages under way, and learners apart between exchanges that take their time.
TEST_F(SaveEvery, SimulatedMachinesTakeTheSameTime) {
  for (const char* sync :
       {"gossip-pull", "sgp", "async-easgd", "sma", "sma-paper", "local-sgd", "slowmo"}) {
    SCOPED_TRACE(sync);
    TrainOptions o = options(sync, sync);
    o.clock = "virtual";
    o.step_times = "uniform:0.1:0.3";
    o.latency = 0.02;
    o.bandwidth = 1e5;
    expect_the_same(o);
  }
}

TEST_F(SaveEvery, NodesOnTheRealClockSaveAndGoOn) {
  for (const AsyncEntry& entry : async_catalogue()) {
    SCOPED_TRACE(entry.name);
    TrainOptions o = options(std::string(entry.name), std::string(entry.name));
    if (entry.uses.workers) {
      o.learners.reset();
      o.threads_per_learner.reset();
    }
    o.clock = "real";
    o.epochs = 2;
    o.save_every = kAlways;
    Copies copies(*o.out);
    const TrainResult r = train(tiny_net, o, &copies);
    EXPECT_EQ(rows_learned(r.nodes), 2 * 176);
    const bool alike = !entry.uses.workers;
    for (const NodeState& node : r.nodes) EXPECT_GE(node.report.updates, alike ? 4 : 0);
    ASSERT_FALSE(copies.folders.empty());
    o.out = o.resume = copies.folders.back();
    EXPECT_EQ(rows_learned(train(tiny_net, o).nodes), 2 * 176);
  }
}

TEST_F(SaveEvery, AReplayKnowsNothingOfPauses) {
  for (const char* sync : {"sgp", "async-eamsgd"}) {
    TrainOptions o = options(sync, sync);
    o.save_every = kAlways;
    train(tiny_net, o);
    TrainOptions again = options_to_replay(*o.out);
    again.out = folder(std::string("again-") + sync);
    again.save_every = 1;
    train(tiny_net, again);
    expect_same_bits(load(*o.out), load(*again.out));
  }
}

/// Its turn comes no earlier because the run saves: another's hundred steps take half as long as
/// one of its own.
TEST_F(SaveEvery, AStretchedNodeStaysSlow) {
  const testing::TinyData data(100 * 16);
  TrainOptions o = options("slow", "sgp", 2);
  o.data = data.spec();
  o.straggler = "1:200";
  o.save_every = 1e-5;  // 0.6 ms
  o.epochs = 1;
  EXPECT_LE(train(tiny_net, o).nodes[1].report.updates, 3);
}

TEST_F(SaveEvery, SavesAtTheEndOfEpochsUnlessItIsTime) {
  TrainOptions o = options("run", "sma", 2);
  Copies copies(*o.out);
  train(tiny_net, o, &copies);
  EXPECT_TRUE(copies.folders.empty());
}

TEST_F(SaveEvery, ChangesNoOtherRun) {
  TrainOptions o = options("run", "sma", 2);
  o.epochs = 1;
  train(tiny_net, o);
  o.epochs = 2;
  o.resume = o.out;
  o.save_every = 0.5;
  train(tiny_net, o);
  EXPECT_EQ(load(*o.out).options.save_every, 0.5);
  for (const double minutes : {0.0, -1.0}) {
    expect_says(refusal("sma", [&](TrainOptions& bad) { bad.save_every = minutes; }),
                "it must be above 0");
  }
}

}  // namespace
}  // namespace crossbow
