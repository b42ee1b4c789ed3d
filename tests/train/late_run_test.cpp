// Whole runs on an asynchronous device: training, batch-norm statistics, evaluation, checkpoints
// and changes of learners give what they give on the CPU.
#include <gtest/gtest.h>

#include "core/machine.h"
#include "device/device.h"
#include "support/late_device.h"
#include "train/checkpoints.h"
#include "train/tiny_run.h"

namespace crossbow::testing {
namespace {

class LateRun : public ::testing::Test {
 protected:
  /// All numbers of the run's checkpoint, and what its epochs were worth.
  std::vector<float> trained(TrainOptions o, const std::string& device,
                             Observer* observer = nullptr) {
    o.device = device;
    o.out = (runs_.path() / std::to_string(runs_made_++)).string();
    const TrainResult result = train(tiny_net, o, observer);
    std::vector<float> all;
    for (const auto& tensor : load(*o.out).tensors) {
      const std::vector<float> values = tensor.values();
      all.insert(all.end(), values.begin(), values.end());
    }
    for (const EpochRecord& epoch : result.history) {
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

}  // namespace
}  // namespace crossbow::testing
