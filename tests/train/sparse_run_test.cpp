// Runs on sparse rows come to what the same runs come to in which batches have all numbers.
#include <gtest/gtest.h>

#include <cmath>

#include "data/files.h"
#include "support/error_text.h"
#include "support/gpu.h"
#include "support/late_device.h"
#include "support/relative_error.h"
#include "support/sparse_set.h"
#include "support/text.h"
#include "train/checkpoints.h"
#include "train/record_json.h"
#include "train/run_config.h"
#include "train/run_data.h"
#include "train/run_summary.h"
#include "train/tiny_run.h"

namespace crossbow {
namespace {

using testing::expect_same_bits;
using testing::load;
using testing::sparse_set;
using testing::StopAfter;
using testing::values_of;

struct Way {
  const char* name;
  std::function<void(TrainOptions&)> set;
};

void PrintTo(const Way& way, std::ostream* out) {
  *out << way.name;
}

class SparseRuns : public ::testing::TestWithParam<Way> {
 protected:
  /// Five and a half batches an epoch.
  TrainOptions options(const std::shared_ptr<const data::Dataset>& set) {
    TrainOptions o;
    o.model = "logistic";
    o.dataset = set;
    o.batch = 16;
    o.epochs = 3;
    o.learners = 1;
    o.threads_per_learner = 1;
    o.sync = "none";
    o.momentum = 0;
    o.lr = 0.4;
    o.lr_schedule = "fixed";
    o.deterministic = true;
    return o;
  }
  TrainOptions options() { return options(set_); }
  std::string folder(const std::string& run) { return (runs_.path() / run).string(); }
  TrainResult trained(const std::string& run, TrainOptions o) {
    o.out = folder(run);
    return train(o);
  }

  const std::shared_ptr<const data::Dataset> set_ = sparse_set(88);
  const std::shared_ptr<const data::Dataset> dense_ =
      std::make_shared<const data::Dataset>(set_->dense());
  data::TemporaryFolder runs_;
  int runs_made_ = 0;
};

TEST_P(SparseRuns, LearnAsDenseOnesDo) {
  TrainOptions sparse = options(set_), dense = options(dense_);
  for (TrainOptions* o : {&sparse, &dense}) GetParam().set(*o);
  const TrainResult a = trained("sparse", sparse), b = trained("dense", dense);
  ASSERT_EQ(a.history.size(), b.history.size());
  for (size_t e = 0; e < a.history.size(); ++e) {
    EXPECT_NEAR(a.history[e].train_loss, b.history[e].train_loss, 1e-5) << e;
    EXPECT_NEAR(*a.history[e].test_loss, *b.history[e].test_loss, 1e-5) << e;
  }
  EXPECT_LT(a.history.back().train_loss, 0.9 * a.history.front().train_loss);
  const auto x = values_of(load(folder("sparse")), Checkpoint::Role::parameter, 0);
  const auto y = values_of(load(folder("dense")), Checkpoint::Role::parameter, 0);
  ASSERT_EQ(x.size(), y.size());
  for (size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(x[i], y[i], 1e-5) << i;
}

Way sync(const char* name, int64_t learners = 2) {
  return {name, [=](TrainOptions& o) {
            o.sync = name;
            o.learners = learners;
            o.lr_scaling = "none";
          }};
}
Way momentum_of(const char* name) {
  return {name, [=](TrainOptions& o) {
            o.sync = name;
            o.learners = 2;
            o.momentum = 0.5;
            o.lr_scaling = "none";
            o.nesterov = std::string_view(name) == "async-eamsgd";
          }};
}

INSTANTIATE_TEST_SUITE_P(
    Ways, SparseRuns,
    ::testing::Values(
        Way{"none", [](TrainOptions&) {}}, Way{"momentum", [](auto& o) { o.momentum = 0.5; }},
        Way{"decay", [](auto& o) { o.weight_decay = 1e-3; }},
        Way{"clipped", [](auto& o) { o.clip_norm = 0.5; }},
        Way{"splits", [](auto& o) { o.splits = 3; }},
        Way{"mlp", [](auto& o) { o.model = "mlp:layers=1,width=40,activation=relu,bias=0"; }},
        Way{"two_threads", [](auto& o) { o.threads_per_learner = 2; }},
        Way{"batches_of_7", [](auto& o) { o.batch = 7; }}, sync("sma"), sync("ssgd"), sync("easgd"),
        sync("sma-paper"), sync("hogwild"), sync("downpour"), sync("gossip-pull"), sync("sgp"),
        momentum_of("async-eamsgd"), Way{"ref", [](auto& o) { o.device = "ref"; }}),
    [](const auto& info) {
      std::string name = info.param.name;
      std::replace(name.begin(), name.end(), '-', '_');
      return name;
    });

using SparseRun = SparseRuns;

class OnGpuSparseRun : public SparseRuns {
 protected:
  const testing::WithLateOptions late_{{.pace = testing::LateOptions::Pace::random}};
};

TEST_P(OnGpuSparseRun, IsTheReferencesButForRounding) {
  const auto of = [&](const std::string& device) {
    TrainOptions o = options();
    GetParam().set(o);
    o.device = device;
    const std::string run = device + std::to_string(runs_made_++);
    EXPECT_LT(trained(run, o).history.back().train_loss, 1) << device;
    return values_of(load(folder(run)), Checkpoint::Role::parameter, 0);
  };
  const std::vector<float> found = of(testing::gpu());
  EXPECT_LT(testing::relative_error(found, of("ref")), 2e-5);
  EXPECT_EQ(found, of(testing::gpu()));
}

INSTANTIATE_TEST_SUITE_P(
    Ways, OnGpuSparseRun,
    ::testing::Values(Way{"logistic", [](TrainOptions&) {}},
                      Way{"mlp",
                          [](auto& o) { o.model = "mlp:layers=1,width=40,activation=relu"; }},
                      Way{"splits", [](auto& o) { o.splits = 3; }}, sync("sma")),
    [](const auto& info) { return std::string(info.param.name); });

TEST_F(SparseRun, SaysWhichStepsPassOverAllWeights) {
  const auto note = [&](const std::string& sync, std::optional<std::string> worker) {
    TrainOptions o = options();
    o.sync = sync;
    o.worker = worker;
    o.epochs = 1;
    o.learners = sync == "none" ? 1 : 2;
    if (worker) {
      o.learners.reset();
      o.threads_per_learner.reset();
      o.deterministic = false;
    }
    StopAfter never(1'000'000);
    train(o, &never);
    const std::string before = never.notes.substr(0, never.notes.find(" passes over all weights"));
    return before == never.notes ? "" : before.substr(before.rfind('\n') + 1);
  };
  EXPECT_EQ(note("none", {}), "");
  EXPECT_EQ(note("hogbatch", "live:threads=1,batch=4"), "");
  EXPECT_EQ(note("hogbatch", "live:threads=1,batch=4 replica:threads=1,batch=16"),
            "a replica's step");
  EXPECT_EQ(note("sma", {}), "with `sync` sma each step");
}

/// By the real clock two nodes change the same weights, and every row counts once.
TEST_F(SparseRun, OfLiveNodesLearns) {
  for (const char* model : {"logistic", "mlp:layers=1,width=64,activation=relu"}) {
    TrainOptions o = options();
    o.model = model;
    o.sync = "hogwild";
    o.learners = 2;
    o.batch = 1;
    o.lr = 0.1;
    o.epochs = 8;
    o.deterministic = false;
    const TrainResult r = trained(model, o);
    int64_t rows = 0;
    for (const NodeState& node : r.nodes) rows += node.report.rows;
    EXPECT_EQ(rows, 8 * 88) << model;
    EXPECT_LT(r.history.back().train_loss, 0.5) << model;
    EXPECT_LT(*r.final_test_loss, 0.9) << model;
  }
}

/// Steps of one row are taken 64 at a time.
TEST_F(SparseRun, CountsTheRowsOfStepsTakenTogether) {
  TrainOptions o = options(sparse_set(1000));
  o.batch = 1;
  o.out = folder("stopped");
  StopAfter stop(4);
  train(o, &stop);
  const Checkpoint c = load(folder("stopped"));
  ASSERT_EQ(c.position.epoch, 0);
  ASSERT_GT(c.position.batch, 0);
  ASSERT_LT(c.position.batch, 15);
  const RunSummary run = summarise(folder("stopped"));
  EXPECT_NEAR(run.images_per_second * run.train_seconds, static_cast<double>(64 * c.position.batch),
              1e-6);
}

TEST_F(SparseRun, BlamesTheRateWhereStepsWereTakenBefore) {
  TrainOptions o = options();
  o.batch = 1;
  o.lr = 1e38;
  testing::expect_says(testing::error_of([&] { train(o); }), "is probably too high");
}

/// On this machine a learner would be alone, and may take several steps at a time.
TEST_F(SparseRun, GoesOnWithTheStepsOfItsOwnTeam) {
  TrainOptions o = options();
  o.sync = "async-easgd";
  o.learners.reset();
  o.threads_per_learner = device_kind("cpu").cores;
  o.deterministic = false;
  const RunConfig alone = resolve(o, find_model("logistic").recipe);
  ASSERT_EQ(alone.teams.size(), 1u);
  EXPECT_EQ(fitted(alone, *set_, nullptr).steps, 4);
  Checkpoint of_two;
  of_two.position.arrangement = {2, 1};
  of_two.position.batch_rows = 16;
  EXPECT_EQ(fitted(alone, *set_, &of_two).steps, 1);
  of_two.position.batch_rows = 6 * 16;
  EXPECT_EQ(fitted(alone, *set_, &of_two).steps,
            3);  // 4 may not meet the place that it has come to
}

TEST_F(SparseRun, RefusesMoreNodesThanBatches) {
  TrainOptions o = options(sparse_set(40));
  o.sync = "hogwild";
  o.learners = 4;
  o.deterministic = false;
  testing::expect_says(testing::error_of([&] { train(o); }), "more than the 3 batches");
}

TEST_F(SparseRun, GoesOnFromACheckpointBitForBit) {
  for (const char* sync : {"none", "hogwild"}) {
    TrainOptions o = options();
    o.sync = sync;
    if (o.sync == "hogwild") o.learners = 2;
    const std::string whole = std::string("whole-") + sync, parts = std::string("parts-") + sync;
    trained(whole, o);
    StopAfter stop(9);
    o.out = folder(parts);
    train(o, &stop);
    EXPECT_LT(load(folder(parts)).position.epoch, 3) << sync;
    o.resume = o.out;
    train(o);
    expect_same_bits(load(folder(whole)), load(folder(parts)));
  }
}

}  // namespace
}  // namespace crossbow
