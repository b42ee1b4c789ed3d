// Functions of a user's own that make no net to train.
#include <gtest/gtest.h>

#include "models/layers.h"
#include "ops/elementwise.h"
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

TEST(OddNets, ThatDoNotComeFromTheirImagesAreRefused) {
  const TinyData data;
  const auto refusal = [&](const ModelFunction& net) {
    return error_of([&] { train(net, tiny_options(data, "cpu")); });
  };
  const std::string foreign =
      "the model 'own' ends in a tensor that it has not made from its images";
  const auto logits = [](Tensor images) { return dense(flatten(images), Dense{.outputs = 10}); };
  EXPECT_EQ(refusal([](Tensor) { return Tensor{}; }), foreign);
  Graph other;
  EXPECT_EQ(refusal([&](Tensor) { return logits(input(other, {16, 1, 8, 8})); }), foreign);
  EXPECT_EQ(refusal([&](Tensor images) {
              return NetOutputs(logits(images), {{Tensor{}, 0.3f}});
            }),
            foreign);
  EXPECT_EQ(refusal([&](Tensor images) {
              return logits(add(images, input(*images.graph, images.shape(), 2)));
            }),
            "the model 'own' has an input of its own, which no batch has numbers for");
}

TEST(OddNets, GroupsThatDoNotDivideTheChannelsAreNamed) {
  const TinyData data;
  const auto net = [](Tensor images) {
    return flatten(conv2d(images, Conv2d{.filters = 4, .groups = 2}, "c"));
  };
  EXPECT_EQ(error_of([&] { train(net, tiny_options(data, "cpu")); }),
            "layer c: 2 groups do not divide the 1 channels of x [16, 1, 8, 8]");
}

}  // namespace
}  // namespace crossbow::testing
