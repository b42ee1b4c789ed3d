// What a team takes of a device with memory of its own, against what that device hands out, and how
// many learners such a device gets.
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "device/sgd.h"
#include "support/error_text.h"
#include "support/late_device.h"
#include "support/text.h"
#include "train/checkpoints.h"
#include "train/scripted_search.h"
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
  void with(int learners, const F& use, const Team::OwnModels& known = {}) {
    data::Pipeline batches(*dataset_, dataset_->train,
                           config_.training_batches(config_.device.count));
    Team team(forward_, config_, config_.team({learners, 1}), *dataset_, batches, tuner_, known);
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
                      Case{"AdPsgd", 3, [](TrainOptions& o) { o.sync = "ad-psgd"; }},
                      Case{"AsyncEasgd", 3, [](TrainOptions& o) { o.sync = "async-easgd"; }},
                      Case{"Downpour", 3, [](TrainOptions& o) { o.sync = "downpour"; }},
                      Case{"GossipPush", 3, [](TrainOptions& o) { o.sync = "gossip-push"; }},
                      Case{"Sgp", 3, [](TrainOptions& o) { o.sync = "sgp"; }},
                      Case{"Hogwild", 3, [](TrainOptions& o) { o.sync = "hogwild"; }},
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

/// On GPUs a program may take seconds to prepare.
TEST(LateTeam, TakesTheProgramsOfATeamWithAnotherNumberOfLearners) {
  LateTeams teams(nothing);
  Team::OwnModels models;
  teams.with(2, [&](const Team& team) { models = team.models; });
  const auto program = models.front()->training(32);
  teams.with(
      3, [&](const Team& team) { EXPECT_EQ(team.models.front()->training(32), program); }, models);
  const CompileOptions options = models.front()->options();
  EXPECT_TRUE(options.same_programs(options));
  const std::vector<std::function<void(CompileOptions&)>> changes = {
      [](CompileOptions& o) { o.device = "ref"; },
      [](CompileOptions& o) { o.precision = DType::bf16; },
      [](CompileOptions& o) { o.tf32 = !o.tf32; },
      [](CompileOptions& o) { o.threads = 2; },
      [](CompileOptions& o) { o.reuse_memory = !o.reuse_memory; },
      [](CompileOptions& o) { o.update = make_sgd({.momentum = 0.8}); },
      [](CompileOptions& o) { o.updates_in_place = !o.updates_in_place; }};
  for (size_t i = 0; i < changes.size(); ++i) {
    CompileOptions other = options;
    changes[i](other);
    EXPECT_FALSE(options.same_programs(other)) << i;
  }
}

/// Whose kernels have no choice: to time one takes memory, too.
constexpr const char* kUntimed = "late-ref";

/// Takes all memory but so much of the device when an epoch is done.
class Hoarder : public Observer {
 public:
  explicit Hoarder(double left_mb = std::numeric_limits<double>::infinity()) : left_mb_(left_mb) {}
  void note(std::string_view text) override { notes += std::string(text) + '\n'; }
  void epoch_done(const EpochRecord&) override {
    if (hoard_.data()) return;
    Device& device = find_device(kUntimed);
    const double taken = device.free_memory_mb() - left_mb_;
    if (taken > 0) hoard_ = device.allocate(static_cast<size_t>(taken * (1 << 20)));
  }
  std::string notes;

 private:
  const double left_mb_;
  Buffer hoard_;
};

/// Fourteen epochs, of which eleven measure one learner where the number is open.
TrainOptions open_options(const TinyData& data) {
  TrainOptions o = tiny_options(data, kUntimed);
  o.model = kOwnModel;
  o.sync = "sma";
  o.deterministic = false;
  o.retune = true;
  o.epochs = 14;
  return o;
}

void search(const TrainOptions& o, Observer& observer,
            const std::map<int64_t, double>& rates = kTwoAreFaster) {
  Script speeds(rates);
  train_graph([](const ModelSpec& spec) { return classifier(kOwnModel, net, spec); }, o, Recipe{},
              speeds, observer);
}

TEST(LateLimits, TheSearchStepsBackWhereTheMemoryIsGone) {
  const WithLateOptions late({.memory = kLimit});
  const TinyData data;
  data::TemporaryFolder runs;
  const auto folder = [&](const char* name) { return (runs.path() / name).string(); };
  TrainOptions o = open_options(data);
  o.out = folder("two");
  Hoarder nothing;
  search(o, nothing);
  EXPECT_EQ(load(*o.out).position.arrangement.learners, 2) << nothing.notes;

  o.out = folder("one");
  Hoarder most(1.2);
  search(o, most);
  EXPECT_PRED_FORMAT2(::testing::IsSubstring,
                      "2 learners of 1 thread cannot be had: `learners` 2: with a batch of 16 they "
                      "need ",
                      most.notes);
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "going on with 1 learner of 1 thread", most.notes);
  const Checkpoint one = load(*o.out);
  EXPECT_TRUE(one.position.settled);
  EXPECT_EQ(text_of(folder("one") + "/learners.jsonl").find("\"learners\":2"), std::string::npos);

  // Nothing is left of the attempt.
  o.learners = 1;
  o.retune = false;
  o.out = folder("fixed");
  search(o, nothing);
  expect_same_bits(one, load(*o.out));
}

TEST(LateLimits, WhatWasFoundBeforeIsGivenUpWhereThereIsNoMemory) {
  const TinyData data;
  const data::TemporaryFolder cache;
  const data::ScopedVariable variable("XDG_CACHE_HOME", cache.path().c_str());
  TrainOptions o = open_options(data);
  {
    const WithLateOptions late({.memory = kLimit});
    Hoarder nothing;
    o.epochs = 34;
    search(o, nothing, {{1, 10}, {2, 20}, {3, 5}, {4, 5}});
    ASSERT_PRED_FORMAT2(::testing::IsSubstring, "going on with 2 learners", nothing.notes);
  }
  const WithLateOptions late({.memory = int64_t{8} << 20});
  o.retune = false;
  o.epochs = 1;
  Hoarder small;
  search(o, small);
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "2 learners of 1 thread, found the best before",
                      small.notes);
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "2 learners of 1 thread cannot be had: `learners` 2",
                      small.notes);
}

TEST(LateLimits, TheSearchSaysHowManyLearnersThereIsMemoryFor) {
  const TinyData data;
  for (const bool is_small : {true, false}) {
    const WithLateOptions late({.memory = is_small ? int64_t{8} << 20 : kLimit * 16});
    TrainOptions o = open_options(data);
    o.epochs = 1;
    Hoarder nothing;
    search(o, nothing);
    EXPECT_EQ(nothing.notes.find("there is memory for at most ") != std::string::npos, is_small)
        << nothing.notes;
  }
}

TEST(LateLimits, DevicesOfARunAreOfOneType) {
  static const RegisterDevice kUnlike{
      "unlike",
      [] {
        return DeviceKind{.devices = 3, .types = {"A", "A", "B"}};
      },
      [](int) -> std::unique_ptr<Device> { throw Error("it is not there"); }};
  const TinyData data;
  const auto refused = [&](const char* device) {
    return error_of([&] { resolve(tiny_options(data, device), Recipe{}); });
  };
  EXPECT_EQ(refused("unlike:0,unlike:1,unlike:2"),
            "`device` unlike:0,unlike:1,unlike:2: unlike:0 is of type A, unlike:2 of type B; a run "
            "needs devices of one type");
  EXPECT_EQ(refused("unlike:1,unlike:2"),
            "`device` unlike:1,unlike:2: unlike:1 is of type A, unlike:2 of type B; a run needs "
            "devices of one type");
  EXPECT_EQ(refused("unlike:0,unlike:1").find("of one type"), std::string::npos);
  EXPECT_EQ(
      refused("late:0,cpu"),
      "`device` late:0,cpu: a run has devices of one kind; `sync` hogbatch trains on late and "
      "cpu");
  EXPECT_EQ(
      refused("late:9"),
      "`device` late:9: there is no GPU: this process may use 4 devices of kind late, counted "
      "from 0");
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
