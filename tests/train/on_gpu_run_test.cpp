// Whole runs on a GPU: the reference's but for rounding, the same bits each time, and its
// checkpoints are of use elsewhere.
#include <gtest/gtest.h>

#include "core/machine.h"
#include "models/model.h"
#include "support/gpu.h"
#include "support/late_device.h"
#include "support/relative_error.h"
#include "sync/async.h"
#include "sync/sync.h"
#include "train/benchmark.h"
#include "train/checkpoints.h"
#include "train/run_config.h"
#include "train/tiny_run.h"

namespace crossbow::testing {
namespace {

class OnGpuRun : public ::testing::Test {
 protected:
  std::string folder(const std::string& run) { return (runs_.path() / run).string(); }
  TrainOptions options(const std::string& sync, const std::string& device) {
    TrainOptions o = tiny_options(data_, device);
    o.out = folder(std::to_string(runs_made_++));
    o.sync = sync;
    o.learners = sync == "none" ? 1 : 3;
    return o;
  }
  /// All numbers of the run's checkpoint.
  static std::vector<float> trained(const TrainOptions& o) {
    train(tiny_net, o);
    std::vector<float> all;
    for (const auto& tensor : load(*o.out).tensors) {
      const std::vector<float> values = tensor.values();
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }
  /// Where a late device stands for the GPU, its work is done at other times.
  const WithLateOptions late_{{.pace = LateOptions::Pace::random}};
  TinyData data_;
  data::TemporaryFolder runs_;
  int runs_made_ = 0;
};

/// The model lies on the CPU, in the CPU's layouts.
TEST_F(OnGpuRun, AReplicaOfUnlikeWorkersIsTheReferencesButForRounding) {
  for (const std::string sync : {"hogbatch", "adaptive-hogbatch", "adaptive-sgd"}) {
    SCOPED_TRACE(sync);
    const auto of = [&](const std::string& device, const std::string& replica) {
      TrainOptions o = options(sync, device);
      o.learners.reset();
      o.threads_per_learner.reset();
      o.worker = (sync == "adaptive-sgd" ? "replica" : "live") +
                 std::string(":batch=2-8 replica:device=") + replica + ",batch=16-32";
      o.deterministic = true;
      o.epochs = 2;
      return trained(o);
    };
    const std::vector<float> found = of("cpu", gpu());
    EXPECT_LT(relative_error(found, of("ref", "ref")), 2e-5);
    EXPECT_EQ(found, of("cpu", gpu()));
  }
}

TEST_F(OnGpuRun, OnTwoIsTheReferencesButForRounding) {
  if (has_gpu() && device_kind(kGpus).devices < 2) GTEST_SKIP() << "one GPU";
  if (physical_cores() == 1) GTEST_SKIP() << "one core makes one device of the reference";
  for (const char* sync : {"sma", "sma-paper", "ssgd", "slowmo"}) {
    SCOPED_TRACE(sync);
    const auto of = [&](const std::string& device) {
      TrainOptions o = options(sync, device + ":0," + device + ":1");
      o.learners = 2;
      return trained(o);
    };
    const std::vector<float> found = of(gpu());
    EXPECT_LT(relative_error(found, of("ref")), 2e-5);
    EXPECT_EQ(found, of(gpu()));
  }
}

class OnGpuAlgorithms : public OnGpuRun, public ::testing::WithParamInterface<std::string> {};

TEST_P(OnGpuAlgorithms, AreTheReferencesButForRounding) {
  std::vector<int64_t> numbers = {3};
  if (has_gpu()) numbers = {1, 2, 3, 5, 8};
  if (GetParam() == "none") numbers = {1};
  for (const int64_t learners : numbers) {
    SCOPED_TRACE(learners);
    const auto of = [&](const std::string& device) {
      TrainOptions o = options(GetParam(), device);
      o.learners = learners;
      o.batch = learners > 5 ? 8 : 16;  // of 70 images
      o.epochs = 2;
      if (o.sync == "ssgd") o.clip_norm = 0.5;
      if (o.sync == "none") o.splits = 2;
      return trained(o);
    };
    const std::vector<float> found = of(gpu());
    EXPECT_LT(relative_error(found, of("ref")), 2e-5);
    EXPECT_EQ(found, of(gpu()));
  }
}

/// All whose learners are alike.
std::vector<std::string> algorithms() {
  std::vector<std::string> names = {"none"};
  for (const SyncEntry& entry : sync_catalogue()) names.emplace_back(entry.name);
  for (const AsyncEntry& entry : async_catalogue()) {
    if (!entry.uses.workers) names.emplace_back(entry.name);
  }
  return names;
}

INSTANTIATE_TEST_SUITE_P(All, OnGpuAlgorithms, ::testing::ValuesIn(algorithms()));

/// Hundreds of steps, whose rounding the reference shows by that of one and of several learners'.
TEST_F(OnGpuRun, ManyLearnersOfLittleBatches) {
  for (const int64_t learners : {1, 2, 5, 8}) {
    SCOPED_TRACE(learners);
    const auto of = [&](const std::string& device) {
      TrainOptions o = options("sma", device);
      o.learners = learners;
      o.batch = 2;
      if (learners > 1) o.lr_scaling = "none";
      o.epochs = has_gpu() ? 6 : 1;
      return trained(o);
    };
    EXPECT_LT(relative_error(of(gpu()), of("ref")), 1e-3);
  }
}

TEST_F(OnGpuRun, LearnsInBf16) {
  TrainOptions o = options("sma", gpu());
  o.epochs = 10;
  const double f32 = train(tiny_net, o).history.back().train_loss;
  o = options("sma", gpu());
  o.epochs = 10;
  o.precision = "bf16";
  EXPECT_NEAR(train(tiny_net, o).history.back().train_loss, f32, 0.05);
}

TEST_F(OnGpuRun, IsTimed) {
  for (const auto& [sync, learners] : {std::pair{"none", 1}, {"sma", 3}}) {
    TrainOptions o;
    o.model = has_gpu() ? "lenet" : "logistic";
    o.device = gpu();
    o.sync = sync;
    o.learners = learners;
    o.deterministic = !has_gpu();
    const ModelSpec spec = find_model(o.model).default_spec(o.batch);
    const BenchmarkResult result =
        benchmark(resolve(o, find_model(o.model).recipe), spec, has_gpu() ? 1 : 0.01);
    EXPECT_GT(result.images_per_second, 0);
    EXPECT_GT(result.bound.bandwidth, 0);
    EXPECT_GT(result.ops.size(), 3u);
  }
}

/// What the GPU has trained the CPU goes on with, and the other way round.
TEST_F(OnGpuRun, GoesOnElsewhere) {
  for (const auto& [first, second] :
       {std::pair{gpu(), std::string("cpu")}, {std::string("cpu"), gpu()}}) {
    TrainOptions o = options("sma", first);
    o.epochs = 1;
    train(tiny_net, o);
    TrainOptions again = o;
    again.resume = *o.out;
    again.device = second;
    again.epochs = 3;
    EXPECT_EQ(train(tiny_net, again).history.size(), 3u) << first << " to " << second;
    TrainOptions whole = options("sma", "ref");
    train(tiny_net, whole);
    const auto z = [](const TrainOptions& run) {
      return values_of(load(*run.out), Checkpoint::Role::parameter, 0);
    };
    EXPECT_LT(relative_error(z(o), z(whole)), 1e-4) << first << " to " << second;
  }
}

}  // namespace
}  // namespace crossbow::testing
