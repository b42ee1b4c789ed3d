// Simulated runs in which nodes fail at random times, on networks and with steps drawn at random:
// none hangs, no sample is lost, nobody fails who was not to, a run that was stopped goes on, and
// what is learned is as good as without failures.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>

#include "core/rng.h"
#include "support/node_states.h"
#include "train/tiny_learners.h"

namespace crossbow {
namespace {

using testing::failed_nodes;
using testing::rows_learned;
using testing::StopAfter;
using testing::tiny_net;

constexpr int64_t kImages = 176, kEpochs = 3, kBatch = 2;
constexpr std::array kNodes{2, 3, 4, 8, 16};
constexpr std::array kAsynchronous{"gossip-pull", "gossip-push", "sgp",         "ad-psgd",
                                   "downpour",    "async-easgd", "async-eamsgd"};
constexpr std::array kSynchronous{"ssgd",           "sma",           "sma-delayed", "sma-paper",
                                  "easgd",          "eamsgd",        "local-sgd",   "slowmo",
                                  "post-local-sgd", "polyak-ruppert"};
constexpr double kStep = 0.1;  // seconds

/// Of one run, drawn from its number; algorithm, nodes and network from that of its group.
struct Plan {
  Plan(uint64_t group, uint64_t number) : rng(group, Purpose::synthetic) {
    waits = uniform() < 0.5;
    sync = waits ? kSynchronous[rng.below(kSynchronous.size())]
                 : kAsynchronous[rng.below(kAsynchronous.size())];
    nodes = kNodes[rng.below(kNodes.size())];
    latency = uniform() < 0.5 ? 0 : 2 * kStep * uniform();
    message = uniform() < 0.5 ? 0 : kStep * uniform();
    if (uniform() < 0.3) straggler = 1 + 3 * uniform();
    rng = Rng(number, Purpose::gossip);
    seed = 7 + rng.below(1000);
    const double whole = kStep * static_cast<double>(kEpochs * kImages / kBatch) / nodes;
    const double share = 0.5 * uniform();
    for (int node = 0; node < nodes; ++node) {
      if (uniform() < share) failures[node] = 1.2 * whole * uniform();
    }
    while (stops.size() < 3 && uniform() < 0.3) stops.push_back(static_cast<int>(rng.below(60)));
  }
  double uniform() { return static_cast<double>(rng.uniform()); }
  std::string text() const {
    return fmt::format(
        "{} of {} nodes, seed {}, failures {}, latency {}, messages of {} s, "
        "straggler {}, stops {}",
        sync, nodes, seed, failures, latency, message, straggler, stops);
  }

  Rng rng;
  bool waits = false;
  std::string sync;
  int nodes = 2;
  uint64_t seed = 1;
  std::map<int, double> failures;  // seconds by node
  double latency = 0, message = 0, straggler = 1;
  std::vector<int> stops;
};

class SimulatedFaults : public testing::TinyLearners {
 protected:
  TrainOptions options(const Plan& plan) {
    TrainOptions o = TinyLearners::options("run", plan.sync, plan.nodes);
    o.seed = plan.seed;
    o.batch = kBatch;
    o.epochs = kEpochs;
    o.lr = 0.02;
    o.clock = "virtual";
    o.step_times = fmt::format("uniform:{}:0.3", kStep);
    if (plan.latency > 0) o.latency = plan.latency;
    if (plan.message > 0) o.bandwidth = kWeightBytes / plan.message;
    if (plan.straggler > 1) o.straggler = fmt::format("0:{}", plan.straggler);
    std::vector<std::string> failures;
    for (const auto& [node, seconds] : plan.failures) {
      failures.push_back(fmt::format("{}:{}", node, seconds));
    }
    if (!failures.empty()) o.fail = fmt::format("{}", fmt::join(failures, ","));
    return o;
  }
  /// Each of the plan's runs but the first goes on with the one before.
  TrainResult run(const Plan& plan) {
    std::filesystem::remove_all(folder("run"));
    TrainOptions o = options(plan);
    if (plan.stops.empty()) o.out.reset();
    for (const int calls : plan.stops) {
      StopAfter stop(calls);
      const TrainResult r = train(tiny_net, o, &stop);
      if (!r.interrupted) return r;
      o.resume = o.out;
    }
    return train(tiny_net, o);
  }
  /// Without failures: the worst loss of some seeds and twice their spread.
  double limit(uint64_t group) {
    Plan plan(group, 0);
    plan.failures.clear();
    plan.stops.clear();
    double least = 1e9, most = 0;
    for (plan.seed = 1; plan.seed <= 6; ++plan.seed) {
      const double loss = *run(plan).final_test_loss;
      least = std::min(least, loss);
      most = std::max(most, loss);
    }
    return most + 2 * (most - least);
  }

  static constexpr double kWeightBytes = 4000;
};

/// CROSSBOW_SIMULATED_FAULTS is the number of runs, else some.
TEST_F(SimulatedFaults, LoseNoSample) {
  const char* const more = std::getenv("CROSSBOW_SIMULATED_FAULTS");
  const int runs = more ? std::atoi(more) : 24, of_group = more ? 40 : 8;
  int with_failures = 0, lost = 0, worse = 0;
  double limit = 0;
  for (int number = 0; number < runs; ++number) {
    const auto group = static_cast<uint64_t>(number / of_group);
    if (number % of_group == 0) limit = this->limit(group);
    const Plan plan(group, static_cast<uint64_t>(number));
    SCOPED_TRACE(fmt::format("run {}: {}", number, plan.text()));
    const TrainResult r = run(plan);
    if (!plan.waits) {
      EXPECT_EQ(rows_learned(r.nodes), kEpochs * kImages);
    }
    std::set<int> failed = failed_nodes(r.nodes);
    for (const LostNode& node : r.lost_nodes) failed.insert(node.node);
    if (plan.waits) {
      EXPECT_EQ(r.arrangement.learners + std::ssize(failed), plan.nodes);
      EXPECT_EQ(failed.size(), r.lost_nodes.size());
    }
    for (const auto& [node, seconds] : plan.failures) {
      if (!plan.waits || r.arrangement.learners == 1) break;  // the last node is left
      EXPECT_EQ(failed.contains(node), seconds < *r.virtual_seconds) << node;
    }
    for (const int node : failed) {
      ASSERT_TRUE(plan.failures.contains(node)) << node;
      // It begins no step that it would not end.
      EXPECT_LE(plan.failures.at(node), *r.virtual_seconds + 2 * kStep * plan.straggler) << node;
    }
    if (*r.final_test_loss > limit) {
      ++worse;
      std::printf("%.3f > %.3f: %s\n", *r.final_test_loss, limit, plan.text().c_str());
    }
    with_failures += !failed.empty();
    lost += static_cast<int>(failed.size());
    if (number % 16 == 0) {
      const TrainResult again = run(plan);
      EXPECT_EQ(again.virtual_seconds, r.virtual_seconds);
      EXPECT_EQ(again.final_test_loss, r.final_test_loss);
    }
  }
  std::printf("%d runs, %d with failures, of %d nodes; %d worse than seeds are\n", runs,
              with_failures, lost, worse);
  EXPECT_LE(worse, std::max(1, runs / 50));  // six seeds are few
  EXPECT_GT(with_failures, runs / 4);
}

}  // namespace
}  // namespace crossbow
