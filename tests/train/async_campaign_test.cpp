// Asynchronous runs in which things go wrong at random: none hangs, none loses or repeats a batch,
// and what is learned is as good as without.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <tuple>

#include "core/error.h"
#include "core/text.h"
#include "support/fault.h"
#include "support/full_disk.h"
#include "support/late_device.h"
#include "support/node_states.h"
#include "sync/async.h"
#include "train/nodes_config.h"
#include "train/tiny_run.h"

namespace crossbow {
namespace {

namespace fs = std::filesystem;
using testing::StopAfter;
using testing::TinyData;

constexpr int64_t kImages = 176, kEpochs = 4;

/// Of one run, drawn from its number.
struct Plan {
  Plan(uint64_t number, const std::vector<std::string>& algorithms)
      : rng(number, Purpose::synthetic) {
    sync = algorithms[rng.below(static_cast<uint32_t>(algorithms.size()))];
    nodes = std::array{2, 3, 5, 8}[rng.below(4)];
    seed = 1 + rng.below(1000);
    virtual_clock = chance(0.3);
    if (chance(0.3)) throws = chance(0.5) ? 0.02 : 0.1;
    if (!virtual_clock && chance(0.2)) stalls = 0.02;
    if (chance(0.1)) failing_evaluation = rng.below(6);
    if (chance(0.1)) disk = rng.below(200'000);
    if (chance(0.15)) failing_work = rng.below(20'000);
    while (stops.size() < 3 && chance(0.4)) stops.push_back(static_cast<int>(rng.below(40)));
    if (!virtual_clock && chance(0.2)) straggler = 1 + 3 * static_cast<double>(rng.uniform());
    const AsyncUses& uses = find_async(sync)->uses;
    elsewhere = uses.workers && chance(0.3);
    overwrites = uses.merge && chance(0.3);
  }
  bool chance(double p) { return static_cast<double>(rng.uniform()) < p; }
  std::string text() const {
    return fmt::format(
        "{} of {} nodes, seed {}, {} clock, throws {}, stalls {}, evaluation {}, disk {}, work {}, "
        "{} stops, straggler {}, elsewhere {}, overwrites {}",
        sync, nodes, seed, virtual_clock ? "virtual" : "real", throws, stalls,
        failing_evaluation.value_or(-1), disk.value_or(0), failing_work.value_or(-1), stops.size(),
        straggler, elsewhere, overwrites);
  }

  Rng rng;
  std::string sync;
  int nodes = 2;
  uint64_t seed = 1;
  bool virtual_clock = false;
  bool elsewhere = false;   // a replica is on a device that the model is not on
  bool overwrites = false;  // as --merge has it
  double throws = 0, stalls = 0, straggler = 1;  // of the first tries of batches
  std::optional<int64_t> failing_evaluation, failing_work;
  std::optional<rlim_t> disk;
  std::vector<int> stops;
};

/// Steps that fail or take long, by a plan. The first step of a run looks like one of an
/// evaluation: it is spared.
class Faults {
 public:
  explicit Faults(const Plan& plan) : plan_(plan) {}
  void operator()(int64_t epoch, int64_t sample) {
    if (epoch == 0 && sample == 0) {
      if (plan_.failing_evaluation && evaluated_++ == *plan_.failing_evaluation) fail("no luck");
      return;
    }
    Rng rng(plan_.seed, Purpose::synthetic, static_cast<uint32_t>(epoch),
            static_cast<uint64_t>(sample));
    const auto draw = static_cast<double>(rng.uniform());
    if (draw >= plan_.throws + plan_.stalls || !is_first(epoch, sample)) return;
    if (draw < plan_.throws) fail("no luck");
    std::this_thread::sleep_for(std::chrono::milliseconds(60));
  }

 private:
  bool is_first(int64_t epoch, int64_t sample) {
    const std::lock_guard lock(mutex_);
    return tried_.emplace(epoch, sample).second;
  }

  const Plan& plan_;
  std::atomic<int64_t> evaluated_{0};
  std::mutex mutex_;
  std::set<std::pair<int64_t, int64_t>> tried_;
};

class AsyncCampaign : public ::testing::Test {
 protected:
  TrainOptions options(const Plan& plan) {
    TrainOptions o = testing::tiny_options(data_, "cpu");
    o.deterministic = false;
    o.sync = plan.sync;
    if (find_async(plan.sync)->uses.workers) {
      const std::string device = plan.elsewhere ? "device=late," : "";
      o.threads_per_learner.reset();
      o.worker =
          fmt::format("live:threads={},batch=2-8 replica:{}batch=16-64", plan.nodes - 1, device);
      if (plan.sync == "adaptive-sgd") {
        o.worker.emplace();
        for (int j = 1; j < plan.nodes; ++j) *o.worker += "replica:batch=2-8 ";
        *o.worker += fmt::format("replica:{}batch=16-32", device);
        o.sync_period = 1;  // several rounds an epoch
      }
      if (plan.overwrites) o.merge = "overwrite";
    } else {
      o.learners = plan.nodes;
    }
    o.clock = plan.virtual_clock ? "virtual" : "real";
    o.seed = plan.seed;
    o.epochs = kEpochs;
    return o;
  }

  /// As long as nothing goes wrong: the worst loss of some seeds by the plan's clock, and how far
  /// apart they are.
  std::pair<double, double> usual(const Plan& plan) {
    const auto [at, is_new] =
        usual_.try_emplace({plan.sync, plan.nodes, plan.virtual_clock, plan.overwrites});
    if (is_new) {
      double least = 1e9, most = 0;
      for (uint64_t seed = 1; seed <= 6; ++seed) {
        Plan here = plan;
        here.elsewhere = false;
        here.seed = seed;
        const TrainOptions o = options(here);
        const double loss = *train(testing::faulty_tiny_net, o).final_test_loss;
        least = std::min(least, loss);
        most = std::max(most, loss);
      }
      at->second = {most, most - least};
    }
    return at->second;
  }

  /// The last of the plan's runs, each of which but the first goes on with the one before.
  TrainResult run(const Plan& plan) {
    TrainOptions o = options(plan);
    if (plan.failing_work && !plan.elsewhere) o.device = "late";
    if (plan.stalls > 0 && o.device != "late") o.lease = 0.02;
    if (plan.straggler > 1) o.straggler = fmt::format("0:{}", plan.straggler);
    o.out = (runs_.path() / "run").string();
    for (const int calls : plan.stops) {
      StopAfter stop(calls);
      const TrainResult r = train(testing::faulty_tiny_net, o, &stop);
      if (!r.interrupted) return r;
      o.resume = o.out;
    }
    return train(testing::faulty_tiny_net, o);
  }

  TrainResult run_with_faults(const Plan& plan) {
    Faults at(plan);
    const testing::WithFaults faults(std::ref(at));
    std::optional<testing::FullDisk> disk;
    if (plan.disk) disk.emplace(*plan.disk);
    const testing::WithLateOptions late({.failing_work = plan.failing_work.value_or(-1)});
    return run(plan);
  }

  TinyData data_{static_cast<uint32_t>(kImages)};
  data::TemporaryFolder runs_;
  std::map<std::tuple<std::string, int, bool, bool>, std::pair<double, double>> usual_;
};

/// Those with CROSSBOW_CAMPAIGN_OF in their names, else all.
std::vector<std::string> algorithms_to_try() {
  const char* part = std::getenv("CROSSBOW_CAMPAIGN_OF");
  std::vector<std::string> names;
  for (const AsyncEntry& entry : async_catalogue()) {
    if (!part || entry.name.find(part) != entry.name.npos) names.emplace_back(entry.name);
  }
  return names;
}

/// CROSSBOW_CAMPAIGN is the number of runs, else some.
TEST_F(AsyncCampaign, EveryRunEndsWellOrSaysWhyNot) {
  const char* more = std::getenv("CROSSBOW_CAMPAIGN");
  const int runs = more ? std::atoi(more) : 50;
  const std::vector<std::string> algorithms = algorithms_to_try();
  ASSERT_FALSE(algorithms.empty());
  int complete = 0, with_failures = 0;
  std::map<std::string, int> errors;
  for (int number = 0; number < runs; ++number) {
    const Plan plan(static_cast<uint64_t>(number), algorithms);
    SCOPED_TRACE(fmt::format("run {}: {}", number, plan.text()));
    std::optional<TrainResult> result;
    try {
      result = run_with_faults(plan);
    } catch (const Error& error) {
      const std::string text = error.what();
      std::string known;
      for (const char* kind : {"failed twice", "the last node", "no luck", "File too large",
                               "late device", "another node"}) {
        if (text.find(kind) != std::string::npos) known = kind;
      }
      EXPECT_NE(known, "") << text;
      ++errors[known];
    }
    fs::remove_all(runs_.path() / "run");
    if (!result) continue;
    const auto [worst, spread] = usual(plan);
    EXPECT_EQ(testing::rows_learned(result->nodes), kEpochs * kImages);
    EXPECT_LE(*result->final_test_loss, worst + 2 * spread);
    ++complete;
    with_failures += !testing::failed_nodes(result->nodes).empty();
  }
  std::printf("%d runs: %d complete, %d of them with nodes that failed\n", runs, complete,
              with_failures);
  for (const auto& [kind, n] : errors) std::printf("  %d ended: %s\n", n, kind.c_str());
  EXPECT_GT(complete, runs / 3);
  EXPECT_GT(with_failures, 0);
}

}  // namespace
}  // namespace crossbow
