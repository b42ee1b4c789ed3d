#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/error.h"
#include "core/file.h"
#include "support/error_text.h"
#include "support/gpu.h"
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
using testing::values_of;

void expect_same_state(const std::string& run_a, const std::string& run_b) {
  const Checkpoint a = load(run_a);
  ASSERT_GE(a.tensors.size(), 5u + 2u);
  expect_same_bits(a, load(run_b));
}

void expect_same_history(const TrainResult& a, const TrainResult& b) {
  ASSERT_EQ(a.history.size(), b.history.size());
  for (size_t i = 0; i < a.history.size(); ++i) {
    EXPECT_EQ(a.history[i].train_loss, b.history[i].train_loss);
    EXPECT_EQ(a.history[i].test_loss, b.history[i].test_loss);
    EXPECT_EQ(a.history[i].test_accuracy, b.history[i].test_accuracy);
  }
}

/// A device, and how two learners synchronise, or "none" for one.
struct Setting {
  std::string device, sync;
  friend void PrintTo(const Setting& s, std::ostream* out) { *out << s.device << ' ' << s.sync; }
};

class Resume : public ::testing::TestWithParam<Setting> {
 protected:
  TrainOptions options(const std::string& run) {
    TrainOptions o = tiny_options(data_, GetParam().device);
    o.out = folder(run);
    o.sync = GetParam().sync;
    o.learners = o.sync == "none" ? 1 : 2;
    const bool longer = o.sync == "post-local-sgd" || o.sync == "polyak-ruppert";
    if (longer || (o.sync == "sma-paper" && o.device == "ref")) o.sync_period = 2;
    if (o.sync == "ssgd") o.clip_norm = 1;
    return o;
  }
  std::string folder(const std::string& run) { return (runs_.path() / run).string(); }

  TinyData data_;
  data::TemporaryFolder runs_;
};

TEST_P(Resume, TheSameSeedGivesTheSameBits) {
  const TrainResult a = train(tiny_net, options("a")), b = train(tiny_net, options("b"));
  expect_same_state(folder("a"), folder("b"));
  expect_same_history(a, b);
  TrainOptions other = options("c");
  other.seed = 2;
  EXPECT_NE(train(tiny_net, other).history[0].train_loss, a.history[0].train_loss);
}

/// An epoch of one learner asks six times whether to stop: before each step, and while it
/// evaluates.
TEST_P(Resume, ARunStoppedAnywhereGoesOnBitForBit) {
  const TrainResult whole = train(tiny_net, options("whole"));
  for (int calls = 0; calls <= 8; ++calls) {
    const std::string run = "stopped" + std::to_string(calls);
    StopAfter stop(calls);
    EXPECT_TRUE(train(tiny_net, options(run), &stop).interrupted) << calls;

    TrainOptions again = options(run);
    again.resume = folder(run);
    const TrainResult resumed = train(tiny_net, again);
    EXPECT_FALSE(resumed.interrupted);
    expect_same_state(folder("whole"), folder(run));
    expect_same_history(whole, resumed);
  }
}

class FailAfter : public StopAfter {
 public:
  using StopAfter::StopAfter;
  bool stop_requested() override {
    if (StopAfter::stop_requested()) fail("a learner's memory is on fire");
    return false;
  }
};

TEST_P(Resume, ARunThatFailsLeavesACheckpointToGoOnFrom) {
  train(tiny_net, options("whole"));
  for (const int calls : {1, 9}) {  // in the first epoch and in the second
    const std::string run = "failed" + std::to_string(calls);
    FailAfter failing(calls);
    EXPECT_EQ(error_of([&] { train(tiny_net, options(run), &failing); }),
              "a learner's memory is on fire");
    TrainOptions again = options(run);
    again.resume = folder(run);
    train(tiny_net, again);
    expect_same_state(folder("whole"), folder(run));
  }
}

TEST_P(Resume, ARunMadeLongerIsTheLongRun) {
  TrainOptions shorter = options("longer");
  shorter.epochs = 1;
  train(tiny_net, shorter);
  TrainOptions again = options("longer");
  again.resume = folder("longer");
  train(tiny_net, again);
  train(tiny_net, options("long"));
  expect_same_state(folder("longer"), folder("long"));
}

INSTANTIATE_TEST_SUITE_P(OnGpu, Resume, ::testing::Values(Setting{testing::gpu(), "sma"}));

INSTANTIATE_TEST_SUITE_P(
    All, Resume,
    ::testing::Values(
        Setting{"ref", "none"}, Setting{"cpu", "none"}, Setting{"cpu", "sma"},
        Setting{"late", "sma"}, Setting{"cpu", "sma-paper"}, Setting{"ref", "sma-paper"},
        Setting{"cpu", "sma-delayed"}, Setting{"cpu", "ssgd"}, Setting{"cpu", "post-local-sgd"},
        Setting{"cpu", "slowmo"}, Setting{"cpu", "polyak-ruppert"}, Setting{"late", "none"},
        Setting{"late", "sma-paper"}, Setting{"late", "ssgd"}, Setting{"cpu", "downpour"},
        Setting{"cpu", "hogwild"}, Setting{"ref", "sgp"}, Setting{"cpu", "gossip-push"},
        Setting{"late", "elastic-gossip"}, Setting{"cpu", "ad-psgd"}),
    [](const auto& info) {
      std::string name = info.param.device + '_' + info.param.sync;
      std::replace(name.begin(), name.end(), '-', '_');
      return name;
    });

class ResumeOnce : public Resume {};
INSTANTIATE_TEST_SUITE_P(Ref, ResumeOnce, ::testing::Values(Setting{"ref", "none"}));

TEST_P(ResumeOnce, MetricsAreThoseOfOneRun) {
  const auto lines = [&](const std::string& run) {
    std::ifstream file(folder(run) + "/metrics.jsonl");
    std::vector<std::string> steps;
    for (std::string line; std::getline(file, line);) {
      if (line.find("\"step\"") != line.npos) steps.push_back(line);
    }
    return steps;
  };
  train(tiny_net, options("whole"));
  StopAfter stop(8);
  train(tiny_net, options("stopped"), &stop);
  // Steps after the checkpoint that a crash left in the file are done again, and told once.
  std::ofstream(folder("stopped") + "/metrics.jsonl", std::ios::app) << "{\"step\":8}\n";
  TrainOptions again = options("stopped");
  again.resume = folder("stopped");
  train(tiny_net, again);
  ASSERT_EQ(lines("whole").size(), 7u);
  EXPECT_EQ(lines("stopped"), lines("whole"));
}

TEST_P(ResumeOnce, LearnersStartAgainFromTheCentralModelWhenTheRateDrops) {
  for (const double drop : {1.0, 2.0}) {  // at the end of the run, and later
    TrainOptions o = options(drop == 1 ? "dropped" : "steady");
    o.sync = "sma";
    o.learners = 2;
    o.epochs = 1;
    o.lr_milestones = {{drop}};
    train(tiny_net, o);
    const Checkpoint end = load(*o.out);
    const auto z = values_of(end, Checkpoint::Role::parameter, 0);
    for (int j : {0, 1}) {
      EXPECT_EQ(values_of(end, Checkpoint::Role::weights, j) == z, drop == 1) << drop;
    }
  }
}

TEST_P(ResumeOnce, TwoProcessesDoNotShareAFolder) {
  fs::create_directory(folder("run"));
  {
    const auto other = lock_folder(folder("run"));
    ASSERT_TRUE(other);
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, "another process is training into",
                        error_of([&] { train(tiny_net, options("run")); }));
    EXPECT_TRUE(fs::is_empty(folder("run")));
  }
  train(tiny_net, options("run"));
}

TEST_P(ResumeOnce, ADamagedCheckpointGivesWayToTheOneBefore) {
  const TrainResult whole = train(tiny_net, options("whole"));
  train(tiny_net, options("damaged"));
  std::ofstream(folder("damaged") + "/checkpoint", std::ios::trunc) << "rubbish";
  TrainOptions again = options("damaged");
  again.resume = folder("damaged");
  StopAfter watch(1000);
  const TrainResult resumed = train(tiny_net, again, &watch);
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "using the checkpoint before it", watch.notes);
  expect_same_state(folder("whole"), folder("damaged"));
  expect_same_history(whole, resumed);
}

TEST_P(ResumeOnce, RefusesAnotherRun) {
  train(tiny_net, options("run"));
  const auto resume_error = [&](auto change) {
    TrainOptions o = options("run");
    o.resume = folder("run");
    change(o);
    return error_of([&] { train(tiny_net, o); });
  };
  const auto says = [](const std::string& text, const char* part) {
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, part, text);
  };
  says(resume_error([](TrainOptions& o) { o.batch = 8; }), "`batch` 8: the run to resume has 16");
  says(resume_error([](TrainOptions& o) { o.loss = "mse"; }),
       "`loss` mse: the run to resume has cross-entropy");
  says(resume_error([](TrainOptions& o) { o.label_smoothing = 0.1; }),
       "`label-smoothing` 0.1: the run to resume has auto");
  says(resume_error([](TrainOptions& o) { o.lr = 1; }), "`lr` 1: the run to resume has 0.05");
  says(resume_error([](TrainOptions& o) { o.out = "elsewhere"; }), "stays in its folder");
  says(resume_error([](TrainOptions& o) { o.resume = o.out = "/nowhere"; }),
       "no run or checkpoint");
  says(error_of([&] { train(tiny_net, options("run")); }), "holds a run already");
  TrainOptions other = options("run");
  other.resume = folder("run");
  const auto other_net = [](Tensor x) { return dense(x, Dense{.outputs = 10}); };
  const std::string of_another = error_of([&] { train(other_net, other); });
  says(of_another, "another net");
  says(of_another, (folder("run") + "/checkpoint").c_str());
}

}  // namespace
}  // namespace crossbow
