// Whole runs on a GPU: the reference's but for rounding, the same bits each time, and its
// checkpoints are of use elsewhere.
#include <gtest/gtest.h>

#include "models/model.h"
#include "support/gpu.h"
#include "support/late_device.h"
#include "support/relative_error.h"
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
  const auto of = [&](const std::string& device, const std::string& replica) {
    TrainOptions o = options("adaptive-hogbatch", device);
    o.learners.reset();
    o.threads_per_learner.reset();
    o.worker = "live:batch=2-8 replica:device=" + replica + ",batch=16-32";
    o.deterministic = true;
    o.epochs = 2;
    return trained(o);
  };
  const std::vector<float> found = of("cpu", gpu());
  EXPECT_LT(relative_error(found, of("ref", "ref")), 2e-5);
  EXPECT_EQ(found, of("cpu", gpu()));
}

class OnGpuAlgorithms : public OnGpuRun, public ::testing::WithParamInterface<const char*> {};

TEST_P(OnGpuAlgorithms, AreTheReferencesButForRounding) {
  const auto of = [&](const std::string& device) {
    TrainOptions o = options(GetParam(), device);
    o.epochs = 2;
    if (o.sync == "ssgd") o.clip_norm = 0.5;
    if (o.sync == "none") o.splits = 2;
    return trained(o);
  };
  const std::vector<float> found = of(gpu());
  EXPECT_LT(relative_error(found, of("ref")), 2e-5);
  EXPECT_EQ(found, of(gpu()));
}

INSTANTIATE_TEST_SUITE_P(All, OnGpuAlgorithms,
                         ::testing::Values("none", "sma", "sma-paper", "ssgd", "local-sgd",
                                           "slowmo", "easgd", "polyak-ruppert", "hogwild",
                                           "downpour", "async-easgd", "async-eamsgd", "gossip-pull",
                                           "gossip-push", "elastic-gossip", "ad-psgd", "sgp"));

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
