// Runs on the virtual clock in which learners that wait for each other fail.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>

#include "support/error_text.h"
#include "support/text.h"
#include "sync/sync.h"
#include "train/checkpoints.h"
#include "train/cluster.h"
#include "train/record_json.h"
#include "train/team_config.h"
#include "train/tiny_learners.h"

namespace crossbow {
namespace {

using testing::expect_same_bits;
using testing::expect_says;
using testing::load;
using testing::step_lines;
using testing::StopAfter;
using testing::text_of;
using testing::tiny_net;
using testing::values_of;

constexpr double kLatency = 0.02;

/// Steps of 0.1 s, of which an epoch of three nodes has four; the last one is of two batches.
class SimulatedLosses : public testing::TinyLearners {
 protected:
  TrainOptions options(const std::string& run, const std::string& sync,
                       int64_t nodes = 3) override {
    TrainOptions o = TinyLearners::options(run, sync, nodes);
    o.clock = "virtual";
    o.step_times = "constant:0.1";
    o.latency = kLatency;
    o.epochs = 1;
    return o;
  }
  /// With steps of all lengths, and small batches, so that more nodes have something to do.
  TrainOptions uneven(const std::string& run, const std::string& sync, int64_t nodes) {
    TrainOptions o = options(run, sync, nodes);
    o.step_times = "uniform:0.1:0.3";
    o.bandwidth = 1e5;
    o.batch = 4;
    o.epochs = 3;
    return o;
  }
};

constexpr double kSum = 2 * kLatency, kStepTime = 0.1;
constexpr int64_t kBatches = 11;  // of an epoch, unless uneven

std::vector<int> nodes_of(const std::vector<LostNode>& lost) {
  std::vector<int> nodes;
  for (const LostNode& l : lost) nodes.push_back(l.node);
  return nodes;
}

/// Two iterations are done at 0.28, and the third one would be at 0.42. The other two nodes have
/// five batches left.
TEST_F(SimulatedLosses, CostTheIterationUnderWay) {
  TrainOptions o = options("run", "ssgd");
  constexpr double kFails = 0.408;  // is another number as steps and as seconds again
  o.fail = "1:0.408";
  StopAfter told(1 << 20);
  const TrainResult r = train(tiny_net, o, &told);
  EXPECT_NEAR(*r.virtual_seconds, kFails + kLatency + 3 * (kStepTime + kSum), 1e-9);
  EXPECT_EQ(nodes_of(r.lost_nodes), std::vector<int>{1});
  EXPECT_EQ(r.lost_nodes[0].seconds, kFails);
  EXPECT_EQ(r.arrangement.learners, 2);
  EXPECT_EQ(r.history[0].learners, 2);
  expect_says(told.notes, "node 1 has failed and goes no further: as `fail` says");
  expect_says(told.notes, "2 learners of 1 thread");
  expect_says(text_of(*o.out + "/metrics.jsonl"),
              "\"lost_nodes\":[{\"node\":1,\"virtual_seconds\":0.408}]");
}

/// The first exchange is complete at 0.34: before, all is lost, and then two batches are left.
TEST_F(SimulatedLosses, CostWhatIsNewerThanTheLastExchange) {
  TrainOptions o = options("early", "local-sgd");
  o.sync_period = 3;
  o.fail = "2:0.33";
  EXPECT_NEAR(*train(tiny_net, o).virtual_seconds, 0.35 + 6 * kStepTime + 2 * kSum, 1e-9);
  o.out = folder("late");
  o.fail = "2:0.35";
  EXPECT_NEAR(*train(tiny_net, o).virtual_seconds, 0.37 + kStepTime, 1e-9);
}

TEST_F(SimulatedLosses, LeaveTheOthersTheirSpeed) {
  TrainOptions o = options("slow", "sma");
  o.latency = 0;
  o.straggler = "2:4";
  o.fail = "0:0";
  EXPECT_NEAR(*train(tiny_net, o).virtual_seconds, 5 * 0.4 + 0.1, 1e-9);  // the last by node 1
  o.out = folder("quick");
  o.fail = "2:0.5";  // after an iteration
  EXPECT_NEAR(*train(tiny_net, o).virtual_seconds, 0.5 + 4 * 0.1, 1e-9);
}

TEST_F(SimulatedLosses, EndWithTheLastNode) {
  TrainOptions o = options("run", "sma");
  o.fail = "0:0,1:0,2:0.05";
  const TrainResult r = train(tiny_net, o);
  EXPECT_EQ(nodes_of(r.lost_nodes), (std::vector<int>{0, 1}));
  EXPECT_NEAR(*r.virtual_seconds, kLatency + 11 * kStepTime, 1e-9);
}

/// A node that fails after the run is not lost.
TEST_F(SimulatedLosses, AreNoneAfterTheRun) {
  TrainOptions o = options("run", "ssgd");
  o.fail = "1:0.57";
  const TrainResult r = train(tiny_net, o);
  EXPECT_NEAR(*r.virtual_seconds, 4 * (kStepTime + kSum), 1e-9);
  EXPECT_TRUE(r.lost_nodes.empty());
}

/// The rate is so small that no weight changes: the mean loss says that each sample was in it once.
TEST_F(SimulatedLosses, LoseNoSample) {
  for (const SyncEntry& entry : sync_catalogue()) {
    for (const int nodes : {2, 4, 8}) {
      SCOPED_TRACE(fmt::format("{} of {}", entry.name, nodes));
      TrainOptions o = uneven("run", std::string(entry.name), nodes);
      o.out.reset();
      o.lr = 1e-30;
      const TrainResult whole = train(tiny_net, o);
      o.fail = nodes == 2 ? "1:2.2" : "1:0.3,2:1.1,0:1.15";
      const TrainResult lost = train(tiny_net, o);
      EXPECT_EQ(lost.lost_nodes.size(), nodes == 2 ? 1u : 3u);
      for (size_t e = 0; e < whole.history.size(); ++e) {
        EXPECT_NEAR(lost.history[e].train_loss, whole.history[e].train_loss, 1e-4);
      }
    }
  }
}

TEST_F(SimulatedLosses, GoOnToTheBit) {
  for (const SyncEntry& entry : sync_catalogue()) {
    for (const int nodes : {2, 4, 8}) {
      const std::string name(entry.name), whole = fmt::format("whole-{}-{}", name, nodes),
                                          parts = fmt::format("parts-{}-{}", name, nodes);
      SCOPED_TRACE(whole);
      TrainOptions o = uneven(whole, name, nodes);
      o.fail = nodes == 2 ? "0:1.2" : "1:0.3,2:1.1,0:1.15";
      const TrainResult expected = train(tiny_net, o);
      o.out = folder(parts);
      for (const int calls : {0, 2, 4, 7}) {
        StopAfter stop(calls);
        EXPECT_TRUE(train(tiny_net, o, &stop).interrupted);
        o.resume = o.out;
      }
      const TrainResult r = train(tiny_net, o);
      EXPECT_EQ(r.virtual_seconds, expected.virtual_seconds);
      EXPECT_EQ(r.lost_nodes, expected.lost_nodes);
      EXPECT_EQ(step_lines(folder(parts)), step_lines(folder(whole)));
      expect_same_bits(load(folder(whole)), load(folder(parts)));
    }
  }
}

/// The weights are those of a run whose number of learners changes at that place, which is the
/// second epoch's seventh batch.
TEST_F(SimulatedLosses, AreAChangeOfLearners) {
  for (const char* sync : {"ssgd", "sma", "easgd", "eamsgd", "slowmo", "polyak-ruppert"}) {
    SCOPED_TRACE(sync);
    TrainOptions o = options(std::string("lost-") + sync, sync);
    o.latency.reset();
    if (std::string(sync) == "slowmo") o.sync_period = 2;
    o.epochs = 3;
    o.lr_milestones = {{2.5}};
    o.fail = "2:0.65";
    train(tiny_net, o);
    const Checkpoint lost = load(*o.out);

    o.fail.reset();
    o.out = folder(std::string("changed-") + sync);
    StopAfter at_once(0);
    train(tiny_net, o, &at_once);
    std::ofstream(*o.out + "/learners.jsonl", std::ios::app)
        << to_json(LearnerChange{1, 6, {2, 1}, true}) << '\n';
    o.resume = o.out;
    train(tiny_net, o);
    expect_same_bits(lost, load(*o.out));
  }
}

/// What a run leaves that is stopped after each of its first epochs, and whose checkpoint then
/// loses these learners, one an epoch.
Checkpoint with_losses(
    TrainOptions o, const std::vector<int>& learners,
    const std::function<void(Checkpoint&)>& change = [](Checkpoint&) {}) {
  const auto epochs = o.epochs;
  o.fail.reset();
  o.epochs = 0;
  for (const int learner : learners) {
    ++*o.epochs;
    train(tiny_net, o);
    o.resume = o.out;
    Checkpoint checkpoint = load(*o.out);
    drop_learner(checkpoint, learner);
    change(checkpoint);
    Position& position = checkpoint.position;
    const int before = position.arrangement.learners--;
    const TeamConfig team = team_of(checkpoint.options, position.arrangement);
    const int64_t exchanges = team.exchanges_before(position.epoch, 0, kBatches);
    position.engine = position.engine.with_learners(before - 1, before, exchanges);
    save_checkpoint(*o.out, checkpoint);
  }
  o.epochs = epochs;
  train(tiny_net, o);
  return load(*o.out);
}

/// Nodes fail in the first iteration of the second and the third epoch, so that the others go on
/// from where it began. Learners have weights of their own there, and momentum.
TEST_F(SimulatedLosses, TakeWhatIsTheLostNodesOwnAndNothingElse) {
  for (const char* sync : {"easgd", "local-sgd", "sma"}) {
    for (const int nodes : {3, 4}) {
      SCOPED_TRACE(fmt::format("{} of {}", sync, nodes));
      TrainOptions o = options(fmt::format("lost-{}-{}", sync, nodes), sync, nodes);
      o.latency.reset();
      o.epochs = 3;
      o.lr_scaling = "none";
      if (std::string(sync) == "local-sgd") o.sync_period = nodes == 3 ? 3 : 2;
      if (std::string(sync) == "sma") o.alpha = 0.5;
      o.fail = nodes == 3 ? "0:0.45" : "0:0.35,1:0.8";
      EXPECT_EQ(std::ssize(train(tiny_net, o).lost_nodes), nodes - 2);
      const Checkpoint lost = load(*o.out);
      EXPECT_NE(values_of(lost, Checkpoint::Role::weights, 0),
                values_of(lost, Checkpoint::Role::weights, 1));

      o.out = folder(fmt::format("dropped-{}-{}", sync, nodes));
      const std::vector<int> learners(static_cast<size_t>(nodes - 2), 0);
      expect_same_bits(lost, with_losses(o, learners));
    }
  }
}

/// Where one learner alone has nobody to agree with, the last one goes on from the central model,
/// with its own momentum; sma, which one learner has a use for, leaves it its weights.
TEST_F(SimulatedLosses, LeaveTheLastNodeTheCentralModelOrItsOwn) {
  for (const char* sync : {"ssgd", "local-sgd", "eamsgd", "sma"}) {
    SCOPED_TRACE(sync);
    const bool keeps_its_own = std::string(sync) == "sma";
    TrainOptions o = options(std::string("lost-") + sync, sync, 2);
    o.latency.reset();
    o.epochs = 2;
    o.lr_scaling = "none";
    if (std::string(sync) == "local-sgd") o.sync_period = 4;
    if (keeps_its_own) {
      o.alpha = 0.5;
      o.momentum = 0;  // without it nothing is kept for the noise of one learner's gradients
    }
    o.fail = "0:0.65";  // in the first iteration of the second epoch
    EXPECT_EQ(nodes_of(train(tiny_net, o).lost_nodes), std::vector<int>{0});
    const Checkpoint lost = load(*o.out);

    o.out = folder(std::string("dropped-") + sync);
    expect_same_bits(lost, with_losses(o, {0}, [&](Checkpoint& checkpoint) {
                       if (keeps_its_own) return;
                       std::erase_if(checkpoint.tensors, [](const auto& t) {
                         return t.role == Checkpoint::Role::weights;
                       });
                     }));
  }
}

TEST_F(SimulatedLosses, LeaveTheOthersWhatTheyHave) {
  for (const char* sync : {"easgd", "ssgd"}) {
    const TrainOptions o = options(sync, sync);
    train(tiny_net, o);
    const Checkpoint before = load(*o.out);
    Checkpoint after = before;
    drop_learner(after, 1);
    using Role = Checkpoint::Role;
    for (const Role role : {Role::weights, Role::learner_state}) {
      for (const auto& [from, to] : {std::pair{0, 0}, {2, 1}, {3, 2}}) {
        EXPECT_EQ(values_of(after, role, to), values_of(before, role, from));
      }
    }
    EXPECT_FALSE(values_of(after, Role::learner_state, 1).empty());
    EXPECT_EQ(values_of(after, Role::weights, 1).empty(), std::string(sync) == "ssgd");
    EXPECT_EQ(values_of(after, Role::slot, 0), values_of(before, Role::slot, 0));
  }
}

}  // namespace
}  // namespace crossbow
