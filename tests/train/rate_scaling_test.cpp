// The rate of k learners, from that of one.
#include "train/rate_scaling.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "support/error_text.h"
#include "support/text.h"
#include "train/run_config.h"

namespace crossbow {
namespace {

using testing::error_of;
using testing::expect_says;

TEST(RateScaling, HasOneFactorForEachNumberOfLearners) {
  EXPECT_EQ(rate_factor("none", 9, {}), 1);
  EXPECT_EQ(rate_factor("linear", 9, {}), 9);
  EXPECT_EQ(rate_factor("sqrt", 9, {}), 3);
  EXPECT_EQ(rate_factor("adascale", 8, 0.75), 6);
  EXPECT_EQ(rate_factor("adascale", 8, {}), 1);  // not yet known
  for (const char* scaling : {"none", "linear", "sqrt"}) EXPECT_EQ(rate_factor(scaling, 1, {}), 1);
}

TEST(RateScaling, TheFactorMovesWithoutAJump) {
  RateFactor f = RateFactor{}.moving_to(4, 0, 600);
  EXPECT_EQ(f.at(0), 1);
  EXPECT_EQ(f.at(200), 2);
  EXPECT_EQ(f.at(600), 4);
  EXPECT_EQ(f.at(1000), 4);
  f = f.moving_to(1, 200, 100);  // on its way
  EXPECT_EQ(f.at(200), 2);
  EXPECT_EQ(f.at(250), 1.5);
  EXPECT_EQ(f.at(300), 1);
  EXPECT_EQ(f.moving_to(3, 400, 0).at(400), 3);
}

TEST(RateScaling, FollowsFromTheAlgorithmUnlessItIsGiven) {
  TrainOptions options;
  options.learners = 4;
  RunConfig c = resolve(options, Recipe{});
  EXPECT_EQ(c.options.lr_scaling, "linear");
  EXPECT_EQ(c.lr_scaling, "linear");
  options.lr_scaling = "sqrt";
  c = resolve(options, Recipe{});
  EXPECT_EQ(c.options.lr_scaling, "sqrt");
  EXPECT_EQ(c.lr_scaling, "sqrt");
}

TEST(RateScaling, IsRefusedForOneLearnerAlone) {
  TrainOptions options;
  options.learners = 1;
  EXPECT_FALSE(resolve(options, Recipe{}).options.lr_scaling);
  options.lr_scaling = "none";
  expect_says(error_of([&] { resolve(options, Recipe{}); }), "`lr-scaling` none");
}

}  // namespace
}  // namespace crossbow
