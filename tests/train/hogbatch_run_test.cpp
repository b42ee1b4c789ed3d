// Runs of unlike workers: what the options say, and what a run keeps and tells.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/file.h"
#include "support/error_text.h"
#include "support/gpu.h"
#include "support/node_states.h"
#include "support/text.h"
#include "train/checkpoints.h"
#include "train/config.h"
#include "train/nodes_config.h"
#include "train/recipe.h"
#include "train/run_config.h"
#include "train/tiny_run.h"

namespace crossbow {
namespace {

using testing::error_of;
using testing::expect_same_bits;
using testing::expect_says;
using testing::load;
using testing::rows_learned;
using testing::StopAfter;
using testing::tiny_net;
using testing::TinyData;

class HogbatchRuns : public ::testing::Test {
 protected:
  TrainOptions options(const std::string& run, const std::string& sync = "adaptive-hogbatch") {
    TrainOptions o = testing::tiny_options(data_, "cpu");
    o.threads_per_learner.reset();
    o.deterministic = false;
    o.out = (runs_.path() / run).string();
    o.sync = sync;
    o.worker = "live:threads=2,batch=2-8 replica:batch=16-32";
    return o;
  }
  TrainOptions of_replicas(const std::string& run) {
    TrainOptions o = options(run, "adaptive-sgd");
    o.worker = "replica:batch=2-8 replica:batch=4-16";
    o.sync_period = 2;
    return o;
  }
  std::string refusal(const std::function<void(TrainOptions&)>& change) {
    TrainOptions o = options("refused");
    change(o);
    return error_of([&] { train(tiny_net, o); });
  }

  TinyData data_{175};  // 88 batches of 2, the last one of a row
  data::TemporaryFolder runs_;
};

TEST_F(HogbatchRuns, BothTrainOnEachRow) {
  for (const char* sync : {"hogbatch", "adaptive-hogbatch"}) {
    for (const char* clock : {"real", "virtual"}) {
      for (const char* merge : {"difference", "overwrite"}) {
        SCOPED_TRACE(std::string(sync) + ' ' + clock + ' ' + merge);
        TrainOptions o = options(std::string(sync) + clock + merge, sync);
        o.clock = clock;
        o.merge = merge;
        const TrainResult r = train(tiny_net, o);
        EXPECT_EQ(rows_learned(r.nodes), 3 * 175);
        ASSERT_EQ(r.workers.size(), 2u);
        EXPECT_EQ(r.workers[0].rows + r.workers[1].rows, 3 * 175);
        EXPECT_LE(r.workers[0].batch_max, 8);
        EXPECT_LE(r.workers[1].batch_max, 32);
        if (r.workers[0].updates > 0) {
          EXPECT_GE(r.workers[0].batch_min, 2);
        }
        if (r.workers[1].updates > 0) {
          EXPECT_GE(r.workers[1].batch_min, 16);
        }
        if (o.clock == "virtual") {
          EXPECT_GT(std::min(r.workers[0].updates, r.workers[1].updates), 0);
        }
        EXPECT_LT(r.history.back().train_loss, r.history.front().train_loss);
      }
    }
  }
}

/// "late" computes with the CPU's kernels; a net of convolutions has weights in blocks there.
TEST_F(HogbatchRuns, AReplicaElsewhereChangesNoBits) {
  for (const std::string sync : {"adaptive-hogbatch", "adaptive-sgd"}) {
    const auto trained = [&](const std::string& device) {
      TrainOptions o = options(sync + device, sync);
      o.deterministic = true;
      o.worker = fmt::format("{}:batch=2-8 replica:device={},batch=16-32",
                             sync == "adaptive-sgd" ? "replica" : "live", device);
      const TrainResult r = train(tiny_net, o);
      EXPECT_EQ(r.workers.back().device, device);
      return load(*o.out);
    };
    expect_same_bits(trained("cpu"), trained("late"));
  }
}

/// Their checkpoints are read, and gone on with, where that device is not.
TEST_F(HogbatchRuns, ARunGoesOnWithoutTheOtherDevice) {
  TrainOptions o = options("elsewhere");
  o.deterministic = true;
  o.worker = "live:batch=2-8 replica:device=late,batch=16-32";
  StopAfter stop(15);
  EXPECT_TRUE(train(tiny_net, o, &stop).interrupted);
  o.resume = o.out;
  o.worker = "live:batch=2-8 replica:batch=16-32";
  EXPECT_EQ(train(tiny_net, o).history.size(), 3u);
  o.worker = "live:batch=2-8 replica:batch=16";
  o.epochs = 4;
  expect_says(error_of([&] { train(tiny_net, o); }), "`worker`");
}

TEST_F(HogbatchRuns, OnAnotherDeviceOrNoneAWorkerLearns) {
  for (const char* device : {"late", "late:1", "cpu"}) {
    TrainOptions o = options(std::string("on-") + device);
    o.worker = fmt::format("live:batch=2-8 replica:device={},batch=16-32", device);
    const TrainResult r = train(tiny_net, o);
    EXPECT_EQ(r.workers[0].rows + r.workers[1].rows, 3 * 175);
    EXPECT_LT(r.history.back().train_loss, r.history.front().train_loss);
  }
}

TEST_F(HogbatchRuns, WorkersAreChosenByTheDevicesCores) {
  TrainOptions o = options("by-name");
  o.worker.reset();
  const RunConfig c = resolve(o, Recipe{});
  ASSERT_EQ(c.teams.size(), 1u);
  ASSERT_EQ(c.teams[0].workers.size(), 2u);
  EXPECT_EQ(c.teams[0].workers[0].threads, std::max(1, device_kind("cpu").cores - 1));
  EXPECT_TRUE(c.teams[0].workers[1].replica);
  EXPECT_EQ(c.teams[0].workers[1].device, testing::has_gpu() ? "cuda" : "");
  EXPECT_EQ(c.batch, 1);
  EXPECT_EQ(option_text(resolve(c.options, Recipe{}).options, *find_option("worker")),
            option_text(c.options, *find_option("worker")));
}

/// On the virtual clock, stopped anywhere.
TEST_F(HogbatchRuns, AResumedRunHasTheSameBits) {
  for (const std::string sync : {"adaptive-hogbatch", "adaptive-sgd"}) {
    const auto deterministic = [&](const std::string& run) {
      TrainOptions o = sync == "adaptive-sgd" ? of_replicas(run) : options(run, sync);
      o.deterministic = true;  // which implies the virtual clock
      return o;
    };
    const TrainOptions whole = deterministic("whole-" + sync);
    train(tiny_net, whole);
    for (const int calls : {3, 15, 30, 45}) {
      SCOPED_TRACE(sync + std::to_string(calls));
      TrainOptions o = deterministic(fmt::format("{}-{}", sync, calls));
      StopAfter stop(calls);
      EXPECT_TRUE(train(tiny_net, o, &stop).interrupted);
      o.resume = o.out;
      train(tiny_net, o);
      expect_same_bits(load(*whole.out), load(*o.out));
    }
  }
}

TEST_F(HogbatchRuns, ReplicasThatMergeTrainOnEachRow) {
  for (const char* clock : {"real", "virtual"}) {
    for (const int64_t period : {1, 2, 100}) {
      SCOPED_TRACE(fmt::format("{} {}", clock, period));
      TrainOptions o = of_replicas(fmt::format("{}-{}", clock, period));
      o.clock = clock;
      o.sync_period = period;
      const TrainResult r = train(tiny_net, o);
      ASSERT_EQ(r.workers.size(), 2u);
      EXPECT_EQ(r.workers[0].rows + r.workers[1].rows, 3 * 175);
      EXPECT_EQ(r.workers[0].kind, "replica");
      EXPECT_LT(r.history.back().train_loss, r.history.front().train_loss);
    }
  }
}

TEST_F(HogbatchRuns, HaveNoOrderToRepeat) {
  train(tiny_net, of_replicas("run"));
  TrainOptions o;
  o.replay = (runs_.path() / "run").string();
  expect_says(error_of([&] { options_to_replay(*o.replay); }),
              "a run of unlike workers has no order");
}

TEST_F(HogbatchRuns, OnCoresAloneSizesThatAdaptAreSmall) {
  if (testing::has_gpu()) GTEST_SKIP() << "a GPU takes large steps";
  using Limits = std::vector<std::pair<int64_t, int64_t>>;
  const auto sizes = [&](const std::string& sync) {
    TrainOptions o = options("by-name", sync);
    o.worker.reset();
    Limits limits;
    const RunConfig c = resolve(o, Recipe{});
    for (const WorkerConfig& worker : c.teams.at(0).workers)
      limits.emplace_back(worker.least, worker.most);
    return limits;
  };
  EXPECT_EQ(sizes("adaptive-hogbatch"), (Limits{{1, 16}, {16, 256}}));
  EXPECT_EQ(sizes("hogbatch"), (Limits{{1, 64}, {128, 2048}}));
}

TEST_F(HogbatchRuns, DefaultSizesFollowAlpha) {
  for (const std::string sync : {"adaptive-hogbatch", "adaptive-sgd"}) {
    TrainOptions o = options("by-alpha", sync);
    o.worker.reset();
    o.alpha = 3;
    const RunConfig c = resolve(o, Recipe{});
    for (const WorkerConfig& worker : c.teams.at(0).workers) {
      EXPECT_GT(worker.most, worker.least);
      EXPECT_EQ(worker.most % (3 * worker.least), 0);
    }
  }
}

TEST_F(HogbatchRuns, ReplicasThatMergeAreChosenByTheDevicesCores) {
  TrainOptions o = of_replicas("by-name");
  o.worker.reset();
  const RunConfig c = resolve(o, Recipe{});
  ASSERT_EQ(c.teams.size(), 1u);
  for (const WorkerConfig& worker : c.teams[0].workers) EXPECT_TRUE(worker.replica);
  EXPECT_EQ(c.batch, 16);
}

TEST_F(HogbatchRuns, MetricsTellWorkersByEpoch) {
  const TrainOptions o = options("metrics");
  train(tiny_net, o);
  std::ifstream file(*o.out + "/metrics.jsonl");
  std::string line;
  int epochs = 0;
  while (std::getline(file, line)) {
    const auto json = nlohmann::json::parse(line);
    if (!json.contains("workers")) continue;
    ++epochs;
    EXPECT_EQ(json["workers"].size(), 2u);
    EXPECT_EQ(json["workers"][0]["kind"], "live");
    EXPECT_EQ(json["workers"][1]["rows"].get<int64_t>() + json["workers"][0]["rows"].get<int64_t>(),
              epochs * 175);
  }
  EXPECT_EQ(epochs, 3);
}

TEST_F(HogbatchRuns, WhatMakesNoSenseIsRefused) {
  const auto worker = [&](const char* text) {
    return refusal([&](TrainOptions& o) { o.worker = text; });
  };
  expect_says(refusal([](TrainOptions& o) { o.sync = "adaptive-sgd"; }),
              "`worker` live: `sync` adaptive-sgd merges replicas");
  expect_says(refusal([](TrainOptions& o) {
                o.sync = "adaptive-sgd";
                o.sync_period = 2'000'000;
              }),
              "`sync-period` 2000000: it must be at most");
  expect_says(worker(""), "`worker`: there is none");
  expect_says(worker("lives"), "a worker is live or replica");
  expect_says(worker("live:thread=2"), "no 'thread'; it has threads, batch, beta, device");
  expect_says(worker("replica:beta=0.5"), "no 'beta'");
  expect_says(worker("live:threads=two"), "'two' is not a number for threads");
  expect_says(worker("live:threads=0"), "threads must be in 1 to");
  expect_says(worker("live:batch=8-2"), "batch must be in 8 to");
  expect_says(worker("live:batch=1-100"), "they reach 64 or 128, not 100");
  expect_says(worker("live:batch=4 replica:batch=6"),
              "must be a multiple of the smallest of all, 4");
  expect_says(worker("replica:device=cudo"), "there is no device 'cudo'; choose cpu or cuda");
  if (!testing::has_gpu()) {
    expect_says(worker("replica:device=cuda"), "device cuda: there is no GPU: ");
  }
  expect_says(worker("replica:device=late live"),
              "one on cpu must come before one on late, or write `device` late");
  expect_says(worker("live replica:device="), "say which device; write device=cuda");
  expect_says(worker("live replica:device=ref"), "a worker is on cpu, or on a GPU, not on ref");
  expect_says(worker("live replica:device=late:9"), "this process may use 4 devices of kind late");
  expect_says(worker("live replica:device=late:x"), "there is no device 'late:x'");
  expect_says(worker("live live:device=late"), "it changes the model where that lies, on cpu");
  expect_says(worker("live replica:device=late,threads=2"), "on late it has one thread");
  expect_says(refusal([](TrainOptions& o) {
                o.device = "late";
                o.worker = "live replica:device=late-ref";
              }),
              "a worker on late-ref needs the model on the CPU");
  expect_says(worker("replica:batch=256"), "`batch` 256");
  expect_says(worker("live:batch=1 replica:batch=256"), "its smallest batch, 256, is more than");
  expect_says(refusal([](TrainOptions& o) { o.learners = 2; }), "`learners`");
  expect_says(refusal([](TrainOptions& o) { o.splits = 2; }), "`splits`");
  expect_says(refusal([](TrainOptions& o) { o.momentum = 0.9; }), "`momentum` 0.9");
  expect_says(refusal([](TrainOptions& o) { o.lr_scaling = "adascale"; }), "adascale");
  expect_says(refusal([](TrainOptions& o) { o.sync = "hogwild"; }), "`worker`");
  expect_says(refusal([](TrainOptions& o) {
                o.sync = "hogbatch";
                o.alpha = 2;
              }),
              "`alpha`");
}

}  // namespace
}  // namespace crossbow
