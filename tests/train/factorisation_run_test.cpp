// Runs on ratings: what they learn, tell and keep.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "core/rng.h"
#include "data/files.h"
#include "support/error_text.h"
#include "support/gpu.h"
#include "support/relative_error.h"
#include "train/checkpoints.h"
#include "train/train.h"

namespace crossbow {
namespace {

using testing::error_of;
using testing::expect_same_bits;
using testing::load;

/// Each of 40 users rates each of 25 items once: 2 + their product of signs; and a tenth of them.
class RatingRuns : public ::testing::Test {
 protected:
  RatingRuns() { write(/*first_user=*/100); }

  void write(int first_user) const {
    std::ofstream file(runs_.path() / "set");
    for (int user = 0; user < 40; ++user) {
      for (int item = 0; item < 25; ++item) {
        const int sign = (user % 2 == item % 2 ? 1 : -1);
        file << first_user + user << "::" << item << "::" << 2 + sign << "::0\n";
      }
    }
  }

  TrainOptions options() const {
    TrainOptions o;
    o.model = "factorisation:rank=4,decay=0.001";
    o.data = "ratings:" + (runs_.path() / "set").string();
    o.batch = 8;
    o.epochs = 12;
    o.lr = 0.3;
    o.learners = 1;
    o.threads_per_learner = 1;
    o.sync = "none";
    o.deterministic = true;
    return o;
  }
  std::string folder(const char* run) const { return (runs_.path() / run).string(); }

  data::TemporaryFolder runs_;
};

/// For a while; then rounding grows.
TEST_F(RatingRuns, OnGpuAreTheReferencesButForRounding) {
  const auto of = [&](const std::string& device) {
    TrainOptions o = options();
    o.device = device;
    o.epochs = 1;
    o.batch = 64;
    o.lr = 0.1;
    o.out = folder(device.c_str());
    train(o);
    return testing::values_of(load(*o.out), Checkpoint::Role::parameter, 0);
  };
  EXPECT_LT(testing::relative_error(of(testing::gpu()), of("ref")), 2e-5);
}

TEST_F(RatingRuns, LearnWhatBiasesCannot) {
  for (const char* device : {"cpu", "ref"}) {
    TrainOptions o = options();
    o.device = device;
    const TrainResult r = train(o);
    EXPECT_EQ(r.options.loss, "mse");
    EXPECT_LT(*r.final_test_rmse, 0.2) << device;  // 1 of biases alone
    EXPECT_NEAR(*r.final_test_rmse, std::sqrt(*r.final_test_loss), 1e-9);
    EXPECT_FALSE(r.final_test_accuracy);
    EXPECT_EQ(r.label, LabelKind::number);
  }
}

TEST_F(RatingRuns, LearnByEveryWayOfSynchronising) {
  for (const char* sync : {"sma", "ssgd", "hogwild", "downpour", "sgp", "adaptive-hogbatch"}) {
    TrainOptions o = options();
    o.sync = sync;
    o.deterministic = false;
    o.epochs = 20;
    o.learners = 2;
    if (std::string_view(sync) == "sgp") {
      o.clock = "virtual";  // what a node has learned counts by its mass, and so by timing
    } else if (std::string_view(sync) == "adaptive-hogbatch") {
      o.learners.reset();
      o.threads_per_learner.reset();
      o.lr = 0.1;
      o.epochs = 120;       // its steps are larger, and so fewer
      o.clock = "virtual";  // how large depends on timing, and with it whether the rate is too high
    }
    EXPECT_LT(*train(o).final_test_rmse, 0.5) << sync;
  }
}

TEST_F(RatingRuns, AreResumedBitForBit) {
  TrainOptions o = options();
  o.out = folder("whole");
  train(o);
  o.out = folder("half");
  o.epochs = 6;
  o.lr_schedule = "fixed";
  TrainOptions whole = options();
  whole.lr_schedule = "fixed";
  whole.out = folder("fixed");
  train(whole);
  train(o);
  resume(folder("half"), [](TrainOptions before) {
    before.epochs = 12;
    return before;
  });
  expect_same_bits(load(folder("half")), load(folder("fixed")));
  EXPECT_EQ(load(folder("half")).groups, (std::vector<int64_t>{40, 25}));
}

TEST_F(RatingRuns, KeepTheStateWithTheSmallestLoss) {
  TrainOptions o = options();
  o.lr = 0.45;
  o.keep_best = true;
  o.out = folder("run");
  const TrainResult r = train(o);
  const EpochRecord* best = &r.history.front();
  for (const EpochRecord& e : r.history) {
    if (*e.test_loss < *best->test_loss) best = &e;
  }
  EXPECT_EQ(r.best_epoch_kept, best->epoch);
  EXPECT_EQ(r.best_test_rmse, best->test_rmse);
}

TEST_F(RatingRuns, HaveNoAccuracyForATarget) {
  TrainOptions o = options();
  o.target_accuracy = 0.9;
  EXPECT_NE(error_of([&] { train(o); }).find("use `target-loss`"), std::string::npos);
  o.target_accuracy.reset();
  o.loss = "cross-entropy";
  EXPECT_NE(error_of([&] { train(o); }).find("choose mse"), std::string::npos);
}

TEST_F(RatingRuns, AreOfTheUsersAndItemsThatWereTrainedOn) {
  TrainOptions o = options();
  o.epochs = 2;
  o.out = folder("run");
  train(o);
  const auto refusal = [&] {
    return error_of([&] {
      resume(folder("run"), [](TrainOptions before) {
        before.epochs = 3;
        return before;
      });
    });
  };
  write(/*first_user=*/200);  // as many
  EXPECT_NE(refusal().find("users and items need the same numbers"), std::string::npos);
  write(100);
  std::ofstream(runs_.path() / "set", std::ios::app) << "7::7::1\n";
  EXPECT_NE(refusal().find("rows of 40 users and 25 items, and this has 893 of 41 users "
                           "and 25 items"),
            std::string::npos)
      << refusal();
}

}  // namespace
}  // namespace crossbow
