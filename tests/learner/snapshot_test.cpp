// What an engine makes of its learners' replicas: one model, and the reverse.
#include <gtest/gtest.h>

#include <cstring>

#include "learner/quadratic.h"
#include "train/tiny_run.h"

namespace crossbow::testing {
namespace {

constexpr int kLearners = 3;

TEST(Snapshot, HasTheMeanOfTheLearnersStatistics) {
  CompileOptions options;
  options.device = "ref";
  options.update = make_sgd();
  CompiledModel model(classifier("own", tiny_net, {{1, 8, 8}, 10, 4, {}}), options);
  model.training(4);
  SyncOptions sync;
  sync.learners = kLearners;
  EngineOptions engine_options;
  engine_options.learners = kLearners;
  engine_options.threads = {1, 2, 1, {}};
  engine_options.batch = {.rows = 4};
  SynchronousEngine engine(model, make_sync("sma-paper", sync), engine_options);
  const auto elements = static_cast<size_t>(engine.layout().state_elements);
  ASSERT_GT(elements, 0u);
  std::vector<float> mean(elements);
  for (int j = 0; j < kLearners; ++j) {
    auto* const states = reinterpret_cast<float*>(engine.learner(j).states());
    for (size_t i = 0; i < elements; ++i) {
      states[i] = static_cast<float>(i) + static_cast<float>(j * j);
      mean[i] += states[i] / kLearners;
    }
  }
  const float* const of_all = engine.snapshot().states.as<float>();
  for (size_t i = 0; i < elements; ++i) EXPECT_FLOAT_EQ(of_all[i], mean[i]);
}

TEST(Snapshot, RestartPutsTheLearnersOfEveryDeviceAtIt) {
  QuadraticData data;
  QuadraticRun run{.sync = "sma-paper", .options = {.learners = 4, .momentum = 0.9}};
  run.devices = 2;
  QuadraticEngine engine(run);
  engine.run(data);
  for (int j = 0; j < 4; ++j) EXPECT_NE(engine.weights(j), engine.z()) << j;
  engine->restart();
  for (int j = 0; j < 4; ++j) EXPECT_EQ(engine.weights(j), engine.z()) << j;
}

}  // namespace
}  // namespace crossbow::testing
