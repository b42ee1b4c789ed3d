// The batch-norm statistics of the evaluated model.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "comm/thread_world.h"
#include "core/error.h"
#include "data/pipeline.h"
#include "graph/source.h"
#include "ops/scale_bias.h"
#include "support/error_text.h"
#include "train/checkpoints.h"
#include "train/tiny_run.h"

namespace crossbow {
namespace {

using testing::error_of;
using testing::load;
using testing::tiny_net;
using testing::TinyData;
using testing::values_of;

/// Batch norm first, so that its statistics are of the images alone.
Tensor normalised_images(Tensor images) {
  return dense(batch_norm(images), Dense{.outputs = 10});
}

class Statistics : public ::testing::TestWithParam<const char*> {
 protected:
  TrainOptions options(const std::string& run) {
    TrainOptions o = testing::tiny_options(data_, GetParam());
    o.out = folder(run);
    o.pad = 0;
    o.mirror = false;
    return o;
  }
  std::string folder(const std::string& run) { return (runs_.path() / run).string(); }
  std::vector<float> states(const std::string& run) {
    return values_of(load(folder(run)), Checkpoint::Role::state, 0);
  }

  TinyData data_{600};
  data::TemporaryFolder runs_;
};

INSTANTIATE_TEST_SUITE_P(All, Statistics, ::testing::Values("ref", "cpu", "late"),
                         [](const auto& info) { return std::string(info.param); });

/// Whatever the training batch, 64 of them make one here; the images have nine whole ones, more
/// than there are buffers.
TEST_P(Statistics, AreThoseOfTheTrainingImages) {
  TrainOptions o = options("measured");
  o.bn_images = 513;  // nine batches
  train(normalised_images, o);

  const auto dataset = data::open_dataset(data_.spec(), {});
  data::PipelineOptions in_order;
  in_order.batch = 64;
  in_order.shuffle = true;
  in_order.seed = o.seed;
  data::Pipeline pipeline(*dataset, dataset->train, in_order);
  pipeline.start(0);
  constexpr int kPixels = 64 * 8 * 8, kBatches = 9;
  double mean = 0, variance = 0;
  for (int b = 0; b < kBatches; ++b) {
    const data::Batch& batch = pipeline.acquire(b);
    double sum = 0, squares = 0;
    for (int i = 0; i < kPixels; ++i) {
      sum += batch.samples()[i];
      squares += static_cast<double>(batch.samples()[i]) * batch.samples()[i];
    }
    pipeline.release(batch);
    mean += sum / kPixels / kBatches;
    variance += (squares / kPixels - std::pow(sum / kPixels, 2)) / kBatches;
  }
  const auto got = states("measured");
  ASSERT_EQ(got.size(), 2u);
  EXPECT_NEAR(got[0], mean, 1e-5);
  EXPECT_NEAR(got[1], variance, 1e-5);
}

TEST_P(Statistics, AreMeasuredByItselfForAMeanOverTimeOnly) {
  TrainOptions o = options("auto");
  o.sync = "polyak-ruppert";
  train(tiny_net, o);
  o.bn_images = 2048;
  o.out = folder("given");
  train(tiny_net, o);
  o.bn_images = 0;
  o.out = folder("learners");
  train(tiny_net, o);
  EXPECT_EQ(states("auto"), states("given"));
  EXPECT_NE(states("auto"), states("learners"));

  TrainOptions sma = options("sma");
  sma.sync = "sma-paper";
  sma.learners = 2;
  train(tiny_net, sma);
  sma.bn_images = 0;
  sma.out = folder("sma of learners");
  train(tiny_net, sma);
  EXPECT_EQ(states("sma"), states("sma of learners"));
}

/// The weights are the same with and without a measurement.
TEST_P(Statistics, OfNodesAreThoseThatAreTested) {
  TrainOptions o = options("measured");
  o.sync = "gossip-pull";
  o.learners = 2;
  const TrainResult measured = train(tiny_net, o);
  o.bn_images = 0;
  o.out = folder("learners");
  const TrainResult learners = train(tiny_net, o);
  EXPECT_NE(states("measured"), states("learners"));
  EXPECT_NE(*measured.final_test_loss, *learners.final_test_loss);
}

/// A constant that the net reads stays what it is.
TEST_P(Statistics, LeaveOtherStatesAsTheyAre) {
  TrainOptions o = options("scaled");
  o.sync = "polyak-ruppert";
  const auto scaled = [](Tensor images) {
    const Tensor x = dense(images, Dense{.outputs = 6});
    const Tensor three = state(*images.graph, {6}, 3.0f, "three");
    return dense(batch_norm(scale_bias(x, three, {})), Dense{.outputs = 10});
  };
  train(scaled, o);
  const std::vector<float> all = states("scaled");
  EXPECT_EQ(std::ranges::count_if(all, [](float x) { return std::abs(x - 3) < 1e-5f; }), 6);
}

TEST_P(Statistics, DoNotDependOnTheNumberOfThreads) {
  for (const int learners : {1, 3}) {
    TrainOptions o = options(std::to_string(learners));
    o.sync = "ssgd";
    o.learners = learners;
    o.lr = 1e-30;
    o.weight_decay = 0;
    o.bn_images = 300;
    train(tiny_net, o);
  }
  EXPECT_EQ(states("1"), states("3"));
}

/// Of three batches one of four ranks has none.
TEST_P(Statistics, AreSharedOutToRanks) {
  if (std::string_view(GetParam()) == "late") GTEST_SKIP() << "ranks have the host's memory";
  TrainOptions o = options("alone");
  o.sync = "ssgd";
  o.lr = 1e-30;
  o.weight_decay = 0;
  o.bn_images = 192;
  train(tiny_net, o);
  ThreadWorlds(4).run([&](World& world) {
    TrainOptions own = o;
    own.out.reset();
    if (world.rank() == 0) own.out = folder("ranks");
    train(tiny_net, own);
  });
  EXPECT_EQ(states("alone"), states("ranks"));
}

TEST_P(Statistics, AreRefusedForANetThatHasNone) {
  TrainOptions o = options("none");
  o.bn_images = 64;
  const auto plain = [](Tensor x) { return dense(x, Dense{.outputs = 10}); };
  EXPECT_EQ(error_of([&] { train(plain, o); }),
            "`bn-images` 64: the net has no batch norm that learns; leave it out");
}

}  // namespace
}  // namespace crossbow
