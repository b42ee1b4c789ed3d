// Runs in which parts of the net are frozen.
#include <algorithm>
#include <cmath>
#include <set>

#include "core/machine.h"
#include "ops/activation.h"
#include "support/text.h"
#include "sync/async.h"
#include "sync/sync.h"
#include "train/checkpoints.h"
#include "train/tiny_learners.h"

namespace crossbow {
namespace {

using testing::error_of;
using testing::expect_same_bits;
using testing::expect_says;
using testing::load;
using testing::StopAfter;

Tensor block(Tensor x, const char* name) {
  const auto scope = x.graph->scope(name);
  return relu(
      batch_norm(conv2d(x, Conv2d{.filters = 5, .padding = 1, .bias = false}, "conv"), {}, "bn"));
}

Tensor net(Tensor x) {
  x = block(block(block(x, "stem"), "layer1"), "layer2");
  return dense(max_pool(x, 2), Dense{.outputs = 10}, "head");
}

using Values = std::map<std::string, std::vector<float>>;

class FrozenRuns : public testing::TinyLearners {
 protected:
  /// Of layer1, whose statistics are such that a mean of equal ones would change bits.
  TrainOptions options(const std::string& run, const std::string& sync, int64_t learners) override {
    TrainOptions o = TinyLearners::options(run, sync, learners);
    o.freeze = "layer1";
    o.first_weights = {{"layer1.bn.running_mean", mean_}, {"layer1.bn.running_var", variance_}};
    return o;
  }
  Values values_of(const std::string& run) {
    Values values;
    for (const auto& t : load(folder(run)).tensors) {
      if (t.role == Checkpoint::Role::parameter || t.role == Checkpoint::Role::state) {
        values[t.name] = t.values();
      }
    }
    return values;
  }
  Values before_training() {
    StopAfter stop(0);
    train(net, options("start", "sma", 2), &stop);
    Values values = values_of("start");
    EXPECT_EQ(values.at("layer1.bn.running_mean"), mean_);
    EXPECT_EQ(values.at("layer1.bn.running_var"), variance_);
    return values;
  }

  std::vector<float> mean_{0.1f, 0.7f, -0.3f, 1.3f, 0.01f}, variance_{0.1f, 0.7f, 0.3f, 1.3f, 3.1f};
};

bool is_frozen(const std::string& name) {
  return name.starts_with("layer1.");
}

void expect_only_the_rest_moved(const Values& before, const Values& after) {
  ASSERT_EQ(before.size(), after.size());
  for (const auto& [name, values] : before) {
    EXPECT_EQ(after.at(name) == values, is_frozen(name)) << name;
  }
}

TEST_F(FrozenRuns, KeepEveryBitWithAnyAlgorithm) {
  const Values before = before_training();
  const auto expect_it = [&](std::string_view sync, int64_t learners, bool unlike) {
    const std::string run = fmt::format("{}{}", sync, learners);
    SCOPED_TRACE(run);
    TrainOptions o = options(run, std::string(sync), learners);
    if (unlike) {
      o.learners.reset();
      o.threads_per_learner.reset();
    }
    o.bn_images = 32;
    train(net, o);
    expect_only_the_rest_moved(before, values_of(run));
  };
  for (const int64_t learners : {1, 2, 3, 4}) {
    for (const SyncEntry& entry : sync_catalogue()) expect_it(entry.name, learners, false);
    for (const AsyncEntry& entry : async_catalogue()) {
      if (!entry.uses.workers || learners == 1) expect_it(entry.name, learners, entry.uses.workers);
    }
  }
}

TEST_F(FrozenRuns, KeepEveryBitOnEveryDevice) {
  const Values before = before_training();
  std::vector<const char*> devices{"ref", "late"};
  if (physical_cores() > 1) devices.push_back("cpu:0,cpu:1");
  for (const char* device : devices) {
    SCOPED_TRACE(device);
    TrainOptions o = options(fmt::format("on {}", device), "sma", 2);
    o.device = device;
    train(net, o);
    expect_only_the_rest_moved(before, values_of(fmt::format("on {}", device)));
  }
}

TEST_F(FrozenRuns, DevicesAgree) {
  for (const char* device : {"cpu", "ref"}) {
    TrainOptions o = options(device, "none", 1);
    o.device = device;
    train(net, o);
  }
  const Values cpu = values_of("cpu"), ref = values_of("ref");
  for (const auto& [name, values] : cpu) {
    double distance = 0, norm = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      distance += std::pow(values[i] - ref.at(name)[i], 2);
      norm += std::pow(ref.at(name)[i], 2);
    }
    EXPECT_LE(std::sqrt(distance), 1e-3 * std::sqrt(norm)) << name;
  }
}

TEST_F(FrozenRuns, HaveNoMomentumAndNoReplicasOfWhatIsFrozen) {
  train(net, options("run", "sma", 2));
  std::set<Checkpoint::Role> roles;
  for (const auto& t : load(folder("run")).tensors) {
    roles.insert(t.role);
    const bool evaluated =
        t.role == Checkpoint::Role::parameter || t.role == Checkpoint::Role::state;
    EXPECT_FALSE(!evaluated && is_frozen(t.name)) << t.name;
  }
  EXPECT_TRUE(roles.contains(Checkpoint::Role::slot));
}

TEST_F(FrozenRuns, GoOnBitForBit) {
  for (const char* sync : {"none", "sma", "ssgd", "gossip-push"}) {
    SCOPED_TRACE(sync);
    const auto run = [&](const char* name) {
      TrainOptions o =
          options(fmt::format("{}-{}", sync, name), sync, sync == std::string("none") ? 1 : 2);
      o.deterministic = true;
      return o;
    };
    train(net, run("whole"));
    StopAfter stop(7);
    EXPECT_TRUE(train(net, run("stopped"), &stop).interrupted);
    TrainOptions again = run("stopped");
    again.first_weights.clear();
    again.resume = again.out;
    train(net, again);
    expect_same_bits(load(*run("whole").out), load(*again.out));
    again.freeze = "layer2";
    expect_says(error_of([&] { train(net, again); }),
                "`freeze` layer2: the run to resume has layer1");
  }
}

TEST_F(FrozenRuns, BeginAsOthersDo) {
  Values frozen = before_training();
  TrainOptions o = options("all", "sma", 2);
  o.freeze.reset();
  StopAfter stop(0);
  train(net, o, &stop);
  Values all = values_of("all");
  const auto is_statistic = [](const auto& tensor) {
    return tensor.first.find("running") != std::string::npos;  // measured on training images
  };
  std::erase_if(frozen, is_statistic);
  std::erase_if(all, is_statistic);
  EXPECT_EQ(all, frozen);
}

TEST_F(FrozenRuns, SayHowManyParametersLearn) {
  const TrainResult r = train(net, options("run", "sma", 2));
  EXPECT_EQ(r.frozen, 5 * 5 * 9 + 2 * 5);
  TrainOptions o = options("all", "sma", 2);
  o.freeze.reset();
  const TrainResult all = train(net, o);
  EXPECT_EQ(all.parameters, r.parameters + r.frozen);
  EXPECT_EQ(all.frozen, 0);
}

TEST_F(FrozenRuns, WithABadPatternAreRefused) {
  const auto says = [&](const char* pattern) {
    return refusal("sma", [&](TrainOptions& o) { o.freeze = pattern; });
  };
  expect_says(says("stem("), "it is no regular expression");
  expect_says(says("layer"), "conv2d");
}

}  // namespace
}  // namespace crossbow
