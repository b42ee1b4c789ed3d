// Ways to train that must come to the same, but for the order in which sums are rounded: a whole
// net, its data, augmentation and dropout.
#include <gtest/gtest.h>

#include "core/machine.h"
#include "ops/activation.h"
#include "ops/dropout.h"
#include "support/relative_error.h"
#include "train/checkpoints.h"
#include "train/tiny_run.h"

namespace crossbow {
namespace {

using testing::load;
using testing::tiny_options;
using testing::TinyData;
using testing::values_of;

/// No batch norm: its statistics are those of a learner's own batch.
Tensor plain_net(Tensor x) {
  x = max_pool(relu(conv2d(x, Conv2d{.filters = 5, .padding = 1})), 2);
  return dense(dropout(relu(dense(x, Dense{.outputs = 16})), 0.2f), Dense{.outputs = 10});
}

class Equivalence : public ::testing::Test {
 protected:
  TrainOptions options(int64_t batch, int64_t learners) {
    TrainOptions o = tiny_options(data_, "cpu");
    o.batch = batch;
    o.learners = learners;
    o.sync = "ssgd";
    if (learners > 1) o.lr_scaling = "none";
    return o;
  }
  /// The weights after training, and the losses of its epochs.
  std::vector<float> trained(TrainOptions o) {
    o.out = (runs_.path() / std::to_string(runs_made_++)).string();
    const TrainResult result = train(plain_net, o);
    auto values = values_of(load(*o.out), Checkpoint::Role::parameter, 0);
    for (const EpochRecord& e : result.history) values.push_back(static_cast<float>(e.train_loss));
    return values;
  }
  static void expect_near(const std::vector<float>& a, const std::vector<float>& b) {
    EXPECT_LT(testing::relative_error(b, a), 2e-5);
  }

  TinyData data_;
  data::TemporaryFolder runs_;
  int runs_made_ = 0;
};

TEST_F(Equivalence, SynchronousLearnersAreOneLargeBatch) {
  const auto one = trained(options(16, 1));
  expect_near(one, trained(options(8, 2)));
  expect_near(one, trained(options(4, 4)));
  EXPECT_NE(one, trained(options(8, 1)));
  TrainOptions clipped = options(16, 1);
  clipped.clip_norm = 0.5;
  TrainOptions clipped_four = options(4, 4);
  clipped_four.clip_norm = 0.5;
  expect_near(trained(clipped), trained(clipped_four));
}

TEST_F(Equivalence, ABatchInPartsIsTheBatch) {
  TrainOptions o = options(16, 1);
  const auto whole = trained(o);
  for (const int64_t splits : {2, 3, 16}) {
    o.splits = splits;
    expect_near(whole, trained(o));
  }
}

TEST_F(Equivalence, DevicesAgreeAsLearnersDo) {
  if (physical_cores() == 1) GTEST_SKIP() << "one core makes one device";
  for (const char* sync : {"sma", "sma-paper", "ssgd", "local-sgd"}) {
    TrainOptions one = options(8, 4), two = options(8, 2);
    one.sync = two.sync = sync;
    two.device = "cpu:0,cpu:1";
    expect_near(trained(one), trained(two));
  }
}

}  // namespace
}  // namespace crossbow
