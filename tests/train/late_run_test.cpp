// Whole runs on an asynchronous device: training, batch-norm statistics, evaluation, checkpoints
// and changes of learners give what they give on the CPU.
#include <gtest/gtest.h>

#include "core/machine.h"
#include "support/late_device.h"
#include "train/checkpoints.h"
#include "train/tiny_run.h"

namespace crossbow::testing {
namespace {

class LateRun : public ::testing::Test {
 protected:
  /// All numbers of the run's checkpoint, and what its epochs were worth.
  std::vector<float> trained(TrainOptions o, const std::string& device) {
    o.device = device;
    o.out = (runs_.path() / std::to_string(runs_made_++)).string();
    const TrainResult result = train(tiny_net, o);
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

TEST_F(LateRun, IsTheCpusRunOnTwoDevices) {
  if (physical_cores() == 1) GTEST_SKIP() << "one core makes one device";
  for (const char* sync : {"sma", "sma-paper", "ssgd", "slowmo"}) {
    TrainOptions o = tiny_options(data_, "cpu");
    o.sync = sync;
    o.learners = 2;
    EXPECT_EQ(trained(o, "cpu:0,cpu:1"), trained(o, "late:0,late:1")) << sync;
  }
}

}  // namespace
}  // namespace crossbow::testing
