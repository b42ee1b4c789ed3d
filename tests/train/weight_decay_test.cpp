// Weight decay of weights alone, whichever part of the program updates them.
#include <cmath>

#include "core/machine.h"
#include "support/text.h"
#include "sync/async.h"
#include "sync/sync.h"
#include "train/checkpoints.h"
#include "train/session.h"
#include "train/tiny_learners.h"

namespace crossbow {
namespace {

using testing::expect_says;
using testing::load;

double norm(const std::vector<float>& values) {
  double sum = 0;
  for (const float x : values) sum += double{x} * double{x};
  return std::sqrt(sum);
}

/// Steps whose gradients are far too small to matter beside the decay.
class WeightDecayOnWeights : public testing::TinyLearners {
 protected:
  TrainOptions options(const std::string& run, const std::string& sync, int64_t learners) override {
    TrainOptions o = TinyLearners::options(run, sync, learners);
    o.lr = 1e-12;
    o.warmup = 0;
    o.weight_decay = 1e10;
    o.weight_decay_on = "weights";
    o.first_weights = {{"dense.bias", bias_}};
    return o;
  }
  void expect_only_weights_shrink(const TrainOptions& options) {
    SCOPED_TRACE(options.sync + " on " + options.device);
    TrainOptions o = options;
    const auto norms = [&](const char* run) {
      o.out = folder(fmt::format("{} {}", run, runs_made_++));
      testing::StopAfter now(0);
      const bool before = run == std::string_view("before");
      train(testing::tiny_net, o, before ? &now : nullptr);
      std::map<std::string, double> all;
      for (const auto& t : load(*o.out).tensors) {
        if (t.role == Checkpoint::Role::parameter) all[t.name] = norm(t.values());
      }
      return all;
    };
    const auto before = norms("before"), after = norms("after");
    o.weight_decay_on = "all";
    const auto all = norms("all");
    for (const char* name : {"conv2d.weight", "dense.weight"}) {
      EXPECT_LT(after.at(name), 0.98 * before.at(name)) << name;
    }
    for (const char* name : {"batch_norm.weight", "batch_norm.bias", "dense.bias"}) {
      EXPECT_NEAR(after.at(name), before.at(name), 1e-6) << name;
    }
    EXPECT_LT(all.at("dense.bias"), 0.98 * before.at("dense.bias"));
  }

  const std::vector<float> bias_ = std::vector<float>(10, 0.5f);
  int runs_made_ = 0;
};

TEST_F(WeightDecayOnWeights, WithEveryAlgorithm) {
  std::vector<std::string> names{"none"};
  for (const SyncEntry& entry : sync_catalogue()) names.emplace_back(entry.name);
  for (const AsyncEntry& entry : async_catalogue()) {
    if (!entry.uses.workers) names.emplace_back(entry.name);
  }
  for (const std::string& sync : names) {
    expect_only_weights_shrink(options(sync, sync, sync == "none" ? 1 : 2));
  }
}

TEST_F(WeightDecayOnWeights, WhenTheWholeGradientIsNeeded) {
  for (const char* sync : {"none", "sma", "ssgd", "hogwild"}) {
    TrainOptions o = options(sync, sync, sync == std::string("none") ? 1 : 2);
    o.clip_norm = 1e6;
    expect_only_weights_shrink(o);
    o.splits = 2;
    expect_only_weights_shrink(o);
  }
}

TEST_F(WeightDecayOnWeights, OnEveryDevice) {
  std::vector<const char*> devices{"ref", "late"};
  if (physical_cores() > 1) devices.push_back("cpu:0,cpu:1");
  for (const char* device : devices) {
    TrainOptions o = options(device, "sma", 2);
    o.device = device;
    expect_only_weights_shrink(o);
  }
}

TEST_F(WeightDecayOnWeights, ByWorkersOfUnlikeSpeed) {
  for (const char* sync : {"hogbatch", "adaptive-hogbatch", "adaptive-sgd"}) {
    TrainOptions o = options(sync, sync, 1);
    o.learners.reset();
    o.threads_per_learner.reset();
    const bool merges = sync == std::string("adaptive-sgd");
    o.worker = merges ? "replica:threads=1,batch=4-16 replica:threads=1,batch=4-16"
                      : "live:batch=4 replica:batch=16";
    expect_only_weights_shrink(o);
  }
}

TEST_F(WeightDecayOnWeights, OfNothingIsRefused) {
  expect_says(refusal("sma", [](auto& o) { o.weight_decay_on = "biases"; }),
              "`weight-decay-on` biases");
  expect_says(refusal("sma",
                      [](auto& o) {
                        o.weight_decay = 0;
                        o.weight_decay_on = "weights";
                      }),
              "`weight-decay-on` weights: with a `weight-decay` of 0 nothing decays");
}

/// By programs that update, and by a gradient that is there as a whole.
TEST(SessionWeightDecay, OnWeightsLeavesBiasesAlone) {
  for (const bool clips : {false, true}) {
    SessionOptions o;
    o.data = "digits";
    o.lr = 1e-12;
    o.momentum = 0;
    o.weight_decay = 1e11;
    o.weight_decay_on = "weights";
    if (clips) o.clip_norm = 1;
    Session session(testing::tiny_net, o);
    session.set("dense.bias", std::vector<float>(10, 0.5f));
    const std::vector<float> before = session.get("dense.weight");
    session.step();
    EXPECT_NEAR(session.get("dense.bias")[3], 0.5, 1e-6);
    EXPECT_NEAR(session.get("dense.weight")[3], 0.9 * before[3], 1e-6);
  }
}

}  // namespace
}  // namespace crossbow
