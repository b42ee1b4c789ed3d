// The gradient noise scale: by hand, and as engines measure it where it is known.
#include "learner/noise_scale.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "core/rng.h"
#include "data/batch_source.h"
#include "learner/noise_probe.h"
#include "learner/synchronous_engine.h"
#include "models/layers.h"
#include "ops/loss.h"

namespace crossbow {
namespace {

TEST(NoiseScale, FollowsFromTheScatterOfVectors) {
  // (3, 1) and (1, 1): |x|² are 10 and 2, the mean (2, 1); a scatter of 2, a signal of 5 − 1.
  NoiseScale scale;
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(scale.images(8));
    scale.add(6, 5, 2, 0);
  }
  scale.add(6, 5, 2, 0);
  EXPECT_DOUBLE_EQ(scale.noise, 2);
  EXPECT_DOUBLE_EQ(scale.signal, 4);
  EXPECT_DOUBLE_EQ(scale.images(8).value(), 4);
}

TEST(NoiseScale, UndoesWhatMomentumDoesToBoth) {
  NoiseScale scale;
  for (int i = 0; i < 4; ++i) scale.add(6, 5, 2, 0.5);
  EXPECT_DOUBLE_EQ(scale.noise, 1.5);
  EXPECT_DOUBLE_EQ(scale.signal, 1);
}

/// Weights that hover about a quadratic's minimum have gradients, though nothing is left to be
/// learned. Of their square momenta leave (1 − μ)² / (1 + μ)²: docs/learning.md.
TEST(NoiseScale, OfMomentaHardlyCountsTheGradientsThatNoiseCauses) {
  constexpr int kDirections = 4000, kSteps = 31, kMeasurements = 24;
  constexpr float kMomentum = 0.9f, kRate = 1;  // times the curvature, which is 1
  Rng rng(3, Purpose::synthetic);
  std::vector<float> x(kDirections);
  std::array<std::vector<float>, 2> momenta;
  for (std::vector<float>& v : momenta) v.resize(kDirections);
  NoiseScale of_gradients, of_momenta;
  for (int step = 1; step <= (10 + kMeasurements) * kSteps; ++step) {
    double gradients = 0, mean_gradients = 0, squares = 0, mean_squares = 0;
    for (int i = 0; i < kDirections; ++i) {
      const std::array<float, 2> g{x[i] + rng.gaussian(), x[i] + rng.gaussian()};
      for (int j : {0, 1}) momenta[j][i] = kMomentum * momenta[j][i] + g[j];
      const float mean_g = (g[0] + g[1]) / 2, mean_v = (momenta[0][i] + momenta[1][i]) / 2;
      gradients += (g[0] * g[0] + g[1] * g[1]) / 2;
      mean_gradients += mean_g * mean_g;
      squares += (momenta[0][i] * momenta[0][i] + momenta[1][i] * momenta[1][i]) / 2;
      mean_squares += mean_v * mean_v;
      x[i] -= kRate * mean_v;
    }
    if (step <= 10 * kSteps || step % kSteps != 0) continue;
    of_gradients.add(gradients, mean_gradients, 2, 0);
    of_momenta.add(squares, mean_squares, 2, kMomentum);
  }
  EXPECT_NEAR(of_momenta.noise, of_gradients.noise, 0.05 * of_gradients.noise);
  EXPECT_NEAR(of_gradients.signal / of_momenta.signal, 361, 40);
}

TEST(NoiseScale, IsInfiniteWithoutASignal) {
  NoiseScale scale;
  for (int i = 0; i < 4; ++i) scale.add(6, 1, 2, 0);
  EXPECT_EQ(scale.images(8), std::numeric_limits<double>::infinity());
}

TEST(NoiseScale, ForgetsWhatLiesFarBack) {
  NoiseScale scale;
  for (int i = 0; i < 100; ++i) scale.add(6, 5, 2, 0);
  for (int i = 0; i < 200; ++i) scale.add(12, 10, 2, 0);
  EXPECT_NEAR(scale.noise, 4, 0.01);
}

TEST(NoiseScale, OfTheImagesOfManyLearnersSoManyCount) {
  EXPECT_EQ(efficiency(240, 16, 1), 1);
  EXPECT_EQ(efficiency(240, 16, 4), 256.0 / 304);
  EXPECT_EQ(efficiency(0, 16, 4), 0.25);
  EXPECT_EQ(efficiency(std::numeric_limits<double>::infinity(), 16, 4), 1);
}

TEST(NoiseProbe, MeasuresOnceInSoManySteps) {
  EXPECT_FALSE(NoiseProbe::due(0, 1, 32));
  EXPECT_TRUE(NoiseProbe::due(31, 1, 32));
  EXPECT_FALSE(NoiseProbe::due(32, 1, 32));
  EXPECT_TRUE(NoiseProbe::due(63, 1, 32));
  EXPECT_TRUE(NoiseProbe::due(3, 8, 32));
  EXPECT_TRUE(NoiseProbe::due(0, 64, 32));
  EXPECT_TRUE(NoiseProbe::due(1, 64, 32));
}

TEST(NoiseProbe, WaitsForWhatItMeasured) {
  Device& device = find_device("late");
  const auto queue = device.make_queue();
  const auto probe =
      NoiseProbe::make(*make_sync("ssgd", {.learners = 2}), make_sgd(), 2, device, 1, 0);
  const std::array<float, 4> vectors{3, 1, 1, 1};
  const Buffer there = device.allocate(sizeof vectors), mean = device.allocate(2 * sizeof(float));
  device.copy_now(there.data(), vectors.data(), sizeof vectors);
  const std::array<const void*, 2> by_learner{there.data(), there.data() + 2 * sizeof(float)};
  NoiseScale scale;
  probe->measure(queue->math(DType::f32), 0, 0, by_learner, 2, mean.data());
  probe->close(*queue, scale);
  probe->collect(scale);
  EXPECT_DOUBLE_EQ(scale.noise, 2);
  EXPECT_DOUBLE_EQ(scale.signal, 4);
}

/// Inputs are ±1, and what is to be learned is nothing: with x·w as output the gradient of a row is
/// 2(x·w) x. Its mean is 2w; its square 4(x·w)² d has the mean 4|w|² d, so that tr Σ / |G|² is d
/// − 1.
constexpr int64_t kInputs = 32, kRows = 4;
constexpr double kNoiseScale = kInputs - 1;

class Signs : public data::BatchSource {
 public:
  Signs() {
    for (int64_t i = 0; i < kBuffers; ++i) {
      x_.emplace_back(kRows * kInputs * sizeof(float));
      target_.emplace_back(kRows * sizeof(float));
      auto* const labels = reinterpret_cast<const int32_t*>(target_.back().data());
      batches_.push_back({i, kRows, x_.back().as<float>(), labels});
    }
  }
  const data::Batch& acquire(int64_t index) override {
    const auto at = static_cast<size_t>(index % kBuffers);
    Rng rng(5, Purpose::synthetic, 0, static_cast<uint64_t>(index));
    for (int64_t i = 0; i < kRows * kInputs; ++i) {
      x_[at].as<float>()[i] = rng.below(2) == 0 ? -1.0f : 1.0f;
    }
    return batches_[at];
  }
  void release(const data::Batch&) override {}

 private:
  static constexpr int64_t kBuffers = 64;  // more than learners may be apart
  std::vector<Buffer> x_, target_;
  std::vector<data::Batch> batches_;
};

Graph product() {
  Graph graph("product");
  const Tensor x = input(graph, {kRows, kInputs}, 0, DType::f32, "images");
  const Tensor target = input(graph, {kRows, 1}, 1, DType::f32, "labels");
  const Tensor y = dense(x, Dense{.outputs = 1, .bias = false}, "w");
  graph.set_output("loss", mean_squared_error(y, target).value);
  return graph;
}

/// Of learners that stay where they are, as their rate is zero; from many measurements.
double measured(const std::string& name, int learners, double momentum,
                const std::string& device = "cpu", int64_t segments = 40) {
  const Optimizer optimizer = make_sgd({.momentum = momentum});
  CompileOptions options;
  options.device = device;
  const std::shared_ptr<const SyncAlgorithm> sync =
      make_sync(name, {.learners = learners, .momentum = momentum});
  if (!sync->traits().averages_gradients) options.update = optimizer;
  CompiledModel model(product(), options);
  model.training(kRows);
  EngineOptions e;
  e.learners = learners;
  e.threads = {1, std::min(2, learners), 1, {}};
  e.batch = {kRows, 0, 1, BatchFormat::dense(kInputs)};
  e.optimizer = optimizer;
  SynchronousEngine engine(model, sync, e);
  Replica first(engine.layout());
  initialise(engine.layout(), first, 3);
  engine.start_from(first);

  Signs data;
  const int64_t batches = (learners == 1 ? 256 : 32) * 24 * learners;
  std::vector<float> losses(static_cast<size_t>(batches));
  double noise = 0, signal = 0;
  for (int64_t i = 0; i < segments; ++i) {
    Segment s;
    s.source = &data;
    s.epoch_batches = segments * batches;
    s.first_batch = i * batches;
    s.batches = batches;
    s.rate = [](int64_t) { return 0.0; };
    s.stop = [] { return false; };
    s.losses = losses;
    s.progress = [](int64_t) {};
    engine.run(s);
    noise += engine.state().place.noise.noise;
    signal += engine.state().place.noise.signal;
  }
  return NoiseScale{noise, signal, 24}.images(kRows).value();
}

TEST(NoiseScale, IsMeasuredWithinATenthWhereItIsKnown) {
  EXPECT_NEAR(measured("ssgd", 4, 0), kNoiseScale, 0.1 * kNoiseScale);
  EXPECT_NEAR(measured("sma", 4, 0.9), kNoiseScale, 0.1 * kNoiseScale);
  EXPECT_NEAR(measured("local-sgd", 2, 0.5), kNoiseScale, 0.1 * kNoiseScale);
  EXPECT_NEAR(measured("sma", 1, 0.9), kNoiseScale, 0.1 * kNoiseScale);
}

TEST(NoiseScale, IsTheSameOnAnAsynchronousDevice) {
  for (const int learners : {1, 3}) {
    EXPECT_EQ(measured("sma", learners, 0.9, "cpu", 2), measured("sma", learners, 0.9, "late", 2));
  }
  EXPECT_EQ(measured("ssgd", 3, 0, "cpu", 2), measured("ssgd", 3, 0, "late", 2));
}

}  // namespace
}  // namespace crossbow
