// Functions of a user's own that make no net to train.
#include <gtest/gtest.h>

#include "ops/pool.h"
#include "ops/shape_ops.h"
#include "support/error_text.h"
#include "train/tiny_run.h"

namespace crossbow::testing {
namespace {

TEST(OddNets, WithoutParametersAreRefused) {
  const auto net = [](Tensor images) {
    PoolAttributes pool;
    pool.kernel = 4;
    pool.stride = {4, 1};
    return flatten(avg_pool(images, pool));  // of 8×8: ten numbers
  };
  const TinyData data;
  for (const char* sync : {"none", "sma", "ssgd", "sgp"}) {
    TrainOptions options = tiny_options(data, "cpu");
    options.sync = sync;
    EXPECT_EQ(error_of([&] { train(net, options); }),
              "the model 'own' has no parameters, so there is nothing to train");
  }
}

TEST(OddNets, EmptyFunctionsAreRefused) {
  const TinyData data;
  EXPECT_EQ(error_of([&] { train(ModelFunction(), tiny_options(data, "cpu")); }),
            "the model 'own' is an empty function");
}

}  // namespace
}  // namespace crossbow::testing
