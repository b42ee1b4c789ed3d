// Batches, last batches and parts of batches of one row where a batch norm needs more.
#include <gtest/gtest.h>

#include <cmath>

#include "models/model.h"
#include "ops/pool.h"
#include "plan/compiled_model.h"
#include "support/error_text.h"
#include "train/benchmark.h"
#include "train/recipe.h"
#include "train/session.h"
#include "train/tiny_run.h"

namespace crossbow::testing {
namespace {

/// With a batch norm over rows, in which one row is a single value for each channel.
Tensor net_of_rows(Tensor images) {
  return dense(batch_norm(dense(images, Dense{.outputs = 6}), {}, "bn"), Dense{.outputs = 10});
}

constexpr const char* kError =
    "layer bn: batch norm learns from more than one value for each channel, but x is [1, 6]; train "
    "on at least 2 rows at a time";

std::string error_with(int64_t batch, int64_t splits, const std::string& device,
                       const ModelFunction& net = net_of_rows) {
  const TinyData data;
  TrainOptions options = tiny_options(data, device);
  options.epochs = 1;
  options.batch = batch;
  options.splits = splits;
  return error_of([&] { train(net, options); });
}

TEST(SingleRows, AreRefusedWithTheOptionThatMakesThem) {
  for (const char* device : {"cpu", "ref"}) {
    SCOPED_TRACE(device);
    EXPECT_EQ(error_with(1, 1, device), kError);
    EXPECT_EQ(error_with(23, 1, device), std::string(kError) +
                                             ": 70 training images in batches of 23 leave a last "
                                             "batch, or a part of it, with 1 row; "
                                             "choose another `batch`");
    EXPECT_EQ(error_with(7, 7, device),
              std::string(kError) +
                  ": `splits` 7 cuts batches of 7 into parts, one of them of 1 row; choose fewer");
    EXPECT_EQ(error_with(7, 2, device),
              "no error");  // parts of 4 and 3
    EXPECT_EQ(error_with(10, 4, device),
              std::string(kError) +
                  ": `splits` 4 cuts batches of 10 into parts, one of them of 1 row; choose fewer");
    EXPECT_EQ(error_with(14, 1, device), "no error");
  }
}

TEST(SingleRows, AreRefusedBeforeKernelsAreTimed) {
  const auto net = [](Tensor images) {
    return net_of_rows(conv2d(images, Conv2d{.filters = 13, .padding = 1}));
  };
  const TinyData data;
  TrainOptions options = tiny_options(data, "cpu");
  options.deterministic = false;
  options.batch = 23;
  StopAfter never(1 << 20);
  EXPECT_THROW(train(net, options, &never), Error);
  EXPECT_EQ(never.progress.timed, 0);
}

TEST(SingleRows, DoWhereTheMapHasMorePositions) {
  for (const char* device : {"cpu", "ref"}) {
    EXPECT_EQ(error_with(23, 1, device, tiny_net), "no error");
    EXPECT_EQ(error_with(7, 7, device, tiny_net), "no error");
  }
}

TEST(SingleRows, AreRefusedByBenchToo) {
  TrainOptions options;
  options.model = "vgg-16";
  options.batch = 1;
  options.sync = "none";
  options.deterministic = true;
  const RunConfig config = resolve(options, find_model(options.model).recipe);
  EXPECT_EQ(error_of([&] { benchmark(config, spec_of(options, config), 0.1); }),
            "layer bn14: batch norm learns from more than one value for each channel, but x is "
            "[1, 512]; train on at least 2 rows at a time");
}

TEST(SingleRows, AreEvaluated) {
  const ModelSpec spec{.image = {1, 24, 24}, .classes = 10, .batch = 1};
  CompileOptions reference;
  reference.device = "ref";
  CompiledModel model(build_model("vgg-16", spec), reference);
  EXPECT_NO_THROW(model.evaluation(1));
  EXPECT_THROW(model.training(1), Error);
}

/// Of 33 images in batches of 16 one is left.
TEST(SessionOfSingleRows, GoesOnAfterABatchThatCannotBeTrainedOn) {
  const TinyData data(33);
  SessionOptions o;
  o.data = data.spec();
  o.threads_per_learner = 1;
  Session session(net_of_rows, o);
  for (int epoch = 0; epoch < 2; ++epoch) {
    for (int step = 0; step < 2; ++step) EXPECT_TRUE(std::isfinite(session.step()));
    EXPECT_EQ(error_of([&] { session.step(); }), kError);
    const std::vector<float> images(size_t{3} * 8 * 8, 0.5f);
    EXPECT_EQ(session.predict(images).size(), 30u);
  }
}

}  // namespace
}  // namespace crossbow::testing
