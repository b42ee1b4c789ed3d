// A session whose epochs end with a batch that the net cannot learn from.
#include <gtest/gtest.h>

#include <cmath>

#include "support/error_text.h"
#include "support/text.h"
#include "train/session.h"
#include "train/tiny_run.h"

namespace crossbow::testing {
namespace {

/// Batch norm of one value a channel, for a batch of one row.
Tensor net_of_rows(Tensor images) {
  return dense(batch_norm(dense(images, Dense{.outputs = 6})), Dense{.outputs = 10});
}

TEST(SessionOfARest, GoesOnAfterABatchThatCannotBeTrainedOn) {
  const TinyData data(33);
  SessionOptions o;
  o.data = data.spec();
  o.threads_per_learner = 1;
  Session session(net_of_rows, o);
  for (int epoch = 0; epoch < 2; ++epoch) {
    for (int step = 0; step < 2; ++step) EXPECT_TRUE(std::isfinite(session.step()));
    expect_says(error_of([&] { session.step(); }), "more than one value for each channel");
    const std::vector<float> images(size_t{3} * 8 * 8, 0.5f);
    EXPECT_EQ(session.predict(images).size(), 30u);
  }
}

}  // namespace
}  // namespace crossbow::testing
