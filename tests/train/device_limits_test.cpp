// What a team takes of a device with memory of its own, against what that device hands out, and how
// many learners such a device gets.
#include <gtest/gtest.h>

#include "support/error_text.h"
#include "support/late_device.h"
#include "train/team.h"
#include "train/tiny_run.h"

namespace crossbow::testing {
namespace {

Tensor net(Tensor images) {
  const Conv2d conv{.filters = 16, .padding = 1, .bias = false};
  const Tensor x = relu(batch_norm(conv2d(images, conv)));
  return dense(dense(x, Dense{.outputs = 200}), Dense{.outputs = 10});
}

/// A run on late devices, whose teams can be made.
class LateTeams {
 public:
  explicit LateTeams(void (*set)(TrainOptions&), const std::string& device = "late")
      : config_(resolve(options(set, device), Recipe{})),
        dataset_(config_.open_data({})),
        forward_(classifier("own", net,
                            {dataset_->info.image, dataset_->info.classes, config_.batch, {}})) {}

  /// Calls `use` with a team of so many learners on each device.
  template <typename F>
  void with(int learners, const F& use) {
    data::Pipeline batches(*dataset_, dataset_->train,
                           config_.training_batches(config_.device.count));
    Team team(forward_, config_, config_.team({learners, 1}), *dataset_, batches, tuner_);
    use(team);
  }
  int affordable(int most) {
    int learners = 0;
    with(1, [&](Team& team) { learners = team.affordable(config_, *dataset_, most); });
    return learners;
  }
  int devices() const { return config_.device.count; }

 private:
  TrainOptions options(void (*set)(TrainOptions&), const std::string& device) const {
    TrainOptions o;
    o.data = data_.spec();
    o.device = device;
    o.deterministic = true;
    o.learners = 2;
    o.batch = 32;
    set(o);
    return o;
  }

  const TinyData data_{2000};
  const RunConfig config_;
  const std::shared_ptr<const data::Dataset> dataset_;
  const Graph forward_;
  Tuner tuner_;
};

struct Case {
  std::string name;
  int learners;  // of each device
  void (*set)(TrainOptions&);
  std::string device = "late";
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.name;
}

void nothing(TrainOptions&) {}

class LateMemory : public ::testing::TestWithParam<Case> {};

TEST_P(LateMemory, IsWhatTheDevicesHandOut) {
  const int learners = GetParam().learners;
  LateTeams teams(GetParam().set, GetParam().device);
  std::vector<double> before;
  for (int d = 0; d < teams.devices(); ++d) {
    before.push_back(find_device("late", d).free_memory_mb());
  }
  teams.with(learners, [&](const Team& team) {
    for (int d = 0; d < teams.devices(); ++d) {
      const double taken = before[static_cast<size_t>(d)] - find_device("late", d).free_memory_mb();
      // A late device hands out whole pages.
      EXPECT_NEAR(team.memory.device_mb(d), taken, 0.1 + 0.04 * learners) << d;
      EXPECT_GT(taken, 5 * (0.1 + 0.04 * learners)) << "too little to tell a part of it";
    }
    EXPECT_EQ(team.config.threads.all_workers(), teams.devices() * learners);
  });
}

INSTANTIATE_TEST_SUITE_P(
    Teams, LateMemory,
    ::testing::Values(Case{"Alone", 1,
                           [](TrainOptions& o) {
                             o.sync = "none";
                             o.learners = 1;
                           }},
                      Case{"Sma", 3, nothing},
                      Case{"Paper", 5, [](TrainOptions& o) { o.sync = "sma-paper"; }},
                      Case{"LargeBatches", 2, [](TrainOptions& o) { o.batch = 500; }},
                      Case{"Clipped", 3, [](TrainOptions& o) { o.clip_norm = 1; }},
                      Case{"InParts", 3, [](TrainOptions& o) { o.splits = 4; }},
                      Case{"LocalSgd", 3, [](TrainOptions& o) { o.sync = "local-sgd"; }},
                      Case{"Ssgd", 3, [](TrainOptions& o) { o.sync = "ssgd"; }},
                      Case{"SsgdClipped", 3,
                           [](TrainOptions& o) {
                             o.sync = "ssgd";
                             o.clip_norm = 1;
                           }},
                      Case{"TwoDevices", 2, nothing, "late:0,late:1"},
                      Case{"ThreeDevices", 2, [](TrainOptions& o) { o.sync = "ssgd"; },
                           "late:0,late:1,late:2"}),
    [](const auto& info) { return info.param.name; });

constexpr int64_t kLimit = 64 << 20;

TEST(LateLimits, AsManyLearnersAreAffordedAsFit) {
  const WithLateOptions late({.memory = kLimit});
  LateTeams teams(nothing);
  constexpr int kMost = 200;
  const int most = teams.affordable(kMost);
  EXPECT_GT(most, 1);
  EXPECT_LT(most, kMost);
  teams.with(most, [](const Team&) {});
  EXPECT_EQ(error_of([&] {
              teams.with(most + 1, [](const Team&) {});
            }).substr(0, std::to_string(most).size() + 12),
            "`learners` " + std::to_string(most + 1) + ":");
}

TEST(LateLimits, ARunThatDoesNotFitIsRefusedBeforeItTrains) {
  class Witness : public Observer {
   public:
    void started(const TrainOptions&, int64_t) override { has_started = true; }
    bool has_started = false;
  };
  const WithLateOptions late({.memory = 1 << 20});
  const TinyData data;
  TrainOptions o = tiny_options(data, "late:0,late:1");
  o.sync = "sma";
  o.learners = 2;
  o.batch = 16;
  Witness witness;
  const auto run = [&] { train(net, o, &witness); };
  EXPECT_THROW(run(), UsageError);
  const std::string error = error_of(run);
  EXPECT_NE(error.find("`learners` 2: with a batch of 16 they need "), error.npos) << error;
  EXPECT_NE(error.find(" MiB of the memory of late:0, and this process may take 1 more; choose "),
            error.npos)
      << error;
  EXPECT_FALSE(witness.has_started);
}

TEST(LateLimits, CoresAndThreadsLimitNothing) {
  const TinyData data;
  TrainOptions o = tiny_options(data, "late");
  o.sync = "sma";
  o.threads_per_learner = {};
  o.deterministic = false;
  const RunConfig open = resolve(o, Recipe{});
  ASSERT_GE(open.teams.size(), 16u);
  for (size_t i = 0; i < open.teams.size(); ++i) {
    const int learners = static_cast<int>(i) + 1;
    EXPECT_EQ(open.teams[i].arrangement, (Arrangement{learners, 1}));
    EXPECT_EQ(open.teams[i].threads.workers, learners);
    EXPECT_TRUE(open.teams[i].threads.cpus.empty());
  }
  o.deterministic = true;
  EXPECT_EQ(resolve(o, Recipe{}).teams.front().arrangement, (Arrangement{1, 1}));
  o.device = "late:0,late:1,late:2,late:3";
  EXPECT_EQ(resolve(o, Recipe{}).device.count, 4);
  o.device += ",late:4";
  EXPECT_EQ(
      error_of([&] { resolve(o, Recipe{}); }),
      "`device` late:0,late:1,late:2,late:3,late:4: this process may use 4 devices of kind late");
  o.device = "late";
  o.threads_per_learner = 2;
  EXPECT_EQ(error_of([&] { resolve(o, Recipe{}); }),
            "`threads-per-learner` 2: on late a learner can have 1 thread");
}

}  // namespace
}  // namespace crossbow::testing
