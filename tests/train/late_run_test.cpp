// Whole runs on an asynchronous device: training, batch-norm statistics, evaluation, checkpoints
// and changes of learners give what they give on the CPU.
#include <gtest/gtest.h>

#include "core/machine.h"
#include "device/device.h"
#include "support/error_text.h"
#include "support/late_device.h"
#include "train/checkpoints.h"
#include "train/tiny_run.h"
#include "train/trained_model.h"

namespace crossbow::testing {
namespace {

class LateRun : public ::testing::Test {
 protected:
  /// All numbers of the run's checkpoint, and what its epochs were worth.
  std::vector<float> trained(TrainOptions o, const std::string& device,
                             Observer* observer = nullptr) {
    o.device = device;
    o.out = (runs_.path() / std::to_string(runs_made_++)).string();
    train(tiny_net, o, observer);
    return values(load(*o.out));
  }
  static std::vector<float> values(const Checkpoint& checkpoint) {
    std::vector<float> all;
    for (const auto& tensor : checkpoint.tensors) {
      const std::vector<float> values = tensor.values();
      all.insert(all.end(), values.begin(), values.end());
    }
    for (const EpochRecord& epoch : checkpoint.history) {
      all.push_back(static_cast<float>(epoch.train_loss));
      all.push_back(static_cast<float>(epoch.test_loss.value()));
      all.push_back(static_cast<float>(epoch.test_accuracy.value()));
    }
    return all;
  }

  TinyData data_;
  data::TemporaryFolder runs_;
  int runs_made_ = 0;
};

TEST_F(LateRun, IsTheCpusRun) {
  for (const auto pace : {LateOptions::Pace::last_moment, LateOptions::Pace::random}) {
    const WithLateOptions late({.pace = pace});
    for (const char* sync : {"none", "sma", "sma-paper", "ssgd", "local-sgd", "polyak-ruppert"}) {
      SCOPED_TRACE(sync);
      TrainOptions o = tiny_options(data_, "cpu");
      o.sync = sync;
      o.learners = o.sync == "none" ? 1 : 3;
      if (o.sync == "ssgd") o.clip_norm = 0.5;
      if (o.sync == "none") o.splits = 2;
      EXPECT_EQ(trained(o, "cpu"), trained(o, "late"));
    }
  }
}

/// Looks at the devices' memory when an epoch is done.
struct MemoryWatch : Observer {
  void epoch_done(const EpochRecord&) override {
    for (int d = 0; d < 4; ++d) left[d] = find_device("late", d).free_memory_mb();
  }
  double left[4] = {};
};

/// How much work is done when the first epoch is.
struct WorkWatch : Observer {
  void epoch_done(const EpochRecord&) override {
    if (of_first_epoch == 0) of_first_epoch = late_work_done();
  }
  int64_t of_first_epoch = 0;
};

TEST_F(LateRun, MayBeOnAnyDeviceAlone) {
  TrainOptions o = tiny_options(data_, "cpu");
  o.sync = "none";
  o.learners = 1;
  MemoryWatch watch;
  EXPECT_EQ(trained(o, "late:2", &watch), trained(o, "cpu"));
  EXPECT_LT(watch.left[2], find_device("late", 2).free_memory_mb());
  for (const int other : {0, 1, 3}) {
    EXPECT_EQ(watch.left[other], find_device("late", other).free_memory_mb()) << other;
  }
}

TEST_F(LateRun, IsTheCpusRunOnTwoDevices) {
  if (physical_cores() == 1) GTEST_SKIP() << "one core makes one device";
  for (const char* sync : {"sma", "sma-paper", "ssgd", "slowmo"}) {
    TrainOptions o = tiny_options(data_, "cpu");
    o.sync = sync;
    o.learners = 2;
    EXPECT_EQ(trained(o, "cpu:0,cpu:1"), trained(o, "late:0,late:1")) << sync;
    EXPECT_EQ(trained(o, "cpu:0,cpu:1"), trained(o, "late:2,late:3")) << sync;
  }
}

/// 16 batches, the last of which is smaller.
TEST_F(LateRun, ATrainedModelIsTestedOnAllDevices) {
  const TinyData data(70, 1000);
  TrainOptions o = tiny_options(data, "cpu");
  o.model = "logistic";
  o.out = (runs_.path() / "logistic").string();
  const TrainResult result = train(o);
  const auto tested_on = [&](const std::string& device) {
    const TrainedModel model(
        *o.out,
        [&](TrainOptions own) {
          own.device = device;
          return own;
        },
        [](auto) {});
    std::vector<double> all(10000);
    const Evaluation mean =
        model.run(*model.open_data(), [&](int64_t first, std::span<const double> logits) {
          std::copy(logits.begin(), logits.end(), all.begin() + first * 10);
        });
    all.insert(all.end(), {mean.loss, mean.accuracy.value()});
    return all;
  };
  const std::vector<double> expected = tested_on("cpu");
  EXPECT_EQ(expected[10000], result.history.back().test_loss);
  for (const auto pace : {LateOptions::Pace::last_moment, LateOptions::Pace::random}) {
    const WithLateOptions late({.pace = pace});
    EXPECT_EQ(tested_on("late"), expected);
    EXPECT_EQ(tested_on("late:0,late:1"), expected);
    EXPECT_EQ(tested_on("late:2,late:3"), expected);
  }
  if (physical_cores() > 1) {
    EXPECT_EQ(tested_on("cpu:0,cpu:1"), expected);
  }
}

/// Whichever piece of work fails when an epoch is done, the run ends with that error and a
/// checkpoint, from which it goes on to where it would have come. (Of others than `sma-paper`,
/// whose exchange is beside a step, each seventh piece; every seventieth run goes on.)
TEST_F(LateRun, AFailureAtAnyPieceOfWorkLeavesACheckpoint) {
  for (const char* sync : {"none", "sma", "sma-paper", "ssgd"}) {
    SCOPED_TRACE(sync);
    TrainOptions o = tiny_options(data_, "late");
    o.sync = sync;
    o.learners = o.sync == "none" ? 1 : 2;
    o.epochs = 2;
    WorkWatch watch;
    std::vector<float> undisturbed;
    int64_t all = 0;
    {
      const WithLateOptions late({});
      undisturbed = trained(o, "late", &watch);
      all = late_work_done();
    }
    int64_t saved = 0;
    const int64_t first = watch.of_first_epoch, stride = o.sync == "sma-paper" ? 1 : 7;
    for (int64_t n = first; n < all; n += stride) {
      SCOPED_TRACE(n);
      o.out = (runs_.path() / std::to_string(runs_made_++)).string();
      {
        const WithLateOptions late({.failing_work = n});
        EXPECT_EQ(error_of([&] { train(tiny_net, o); }), "the late device failed");
      }
      saved += load(*o.out).position.epoch;
      if ((n - first) % 70 != 0) continue;
      const WithLateOptions late({});
      TrainOptions again = o;
      again.resume = o.out;
      train(tiny_net, again);
      EXPECT_EQ(values(load(*o.out)), undisturbed);
    }
    EXPECT_GT(saved * stride, (all - first) / 2);  // the first of these belong to saving
  }
}

/// Which of two devices is lost, and when: the other one does not wait for it for ever, and what
/// was saved before can be read.
TEST_F(LateRun, ALostDeviceEndsTheWorkOfAll) {
  for (const char* sync : {"sma", "sma-paper", "ssgd"}) {
    SCOPED_TRACE(sync);
    TrainOptions o = tiny_options(data_, "late:0,late:1");
    o.sync = sync;
    o.learners = 2;
    o.epochs = 2;
    WorkWatch watch;
    int64_t all = 0;
    {
      const WithLateOptions late({});
      trained(o, o.device, &watch);
      all = late_work_done();
    }
    int64_t lost = 0, saved = 0;
    for (int64_t n = 0; n < all; n += 37) {
      SCOPED_TRACE(n);
      const auto pace = n % 2 ? LateOptions::Pace::random : LateOptions::Pace::last_moment;
      const WithLateOptions late({.pace = pace, .failing_work = n, .lost = true});
      o.out = (runs_.path() / std::to_string(runs_made_++)).string();
      EXPECT_EQ(error_of([&] { train(tiny_net, o); }), "the late device failed");
      lost += n > watch.of_first_epoch;
      if (std::filesystem::exists(*o.out + "/checkpoint")) saved += load(*o.out).position.epoch;
    }
    EXPECT_GT(saved, lost / 2);  // the first of these belong to saving
  }
}

}  // namespace
}  // namespace crossbow::testing
