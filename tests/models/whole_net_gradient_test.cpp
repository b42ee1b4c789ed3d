// The gradient of each model against finite differences of the reference device in double, along
// random directions in several of its parameter tensors.
#include <algorithm>

#include "support/model_testing.h"

namespace crossbow::testing {
namespace {

// A step of 1e-6, as the single ops take, carries a few of the activations of a hundred layers
// across the kink of their ReLU, and the loss with them.
constexpr double kEpsilon = 1e-8, kAbsolute = 1e-5, kRelative = 1e-3;
constexpr size_t kTensors = 4;

class WholeNetGradient : public ::testing::TestWithParam<const Model*> {};

/// A unit vector: every element a little up or down.
std::vector<double> random_direction(size_t size, uint32_t tensor) {
  Rng rng(2, Purpose::synthetic, tensor);
  std::vector<double> direction(size);
  const double step = 1 / std::sqrt(static_cast<double>(size));
  for (double& d : direction) d = rng.below(2) ? step : -step;
  return direction;
}

TEST_P(WholeNetGradient, MatchesFiniteDifferences) {
  const Graph graph = small_model(*GetParam());
  GraphRun joint(with_gradients(graph)), forward(graph);
  joint.run();
  const std::vector<std::string> names = joint.parameter_names();
  const size_t count = std::min(kTensors, names.size());
  for (size_t t = 0; t < count; ++t) {
    const std::string& name = names[t * (names.size() - 1) / (count - 1)];
    const std::vector<double> gradient = joint.gradient(name), start = forward.get(name);
    const auto direction = random_direction(start.size(), static_cast<uint32_t>(t));
    const auto loss_at = [&](double distance) {
      std::vector<double> moved = start;
      for (size_t i = 0; i < moved.size(); ++i) moved[i] += distance * direction[i];
      forward.set(name, moved);
      forward.run();
      return forward.scalar("loss");
    };
    const double difference = (loss_at(kEpsilon) - loss_at(-kEpsilon)) / (2 * kEpsilon);
    forward.set(name, start);
    double slope = 0, norm = 0;
    for (size_t i = 0; i < gradient.size(); ++i) {
      slope += gradient[i] * direction[i];
      norm += gradient[i] * gradient[i];
    }
    EXPECT_NEAR(slope, difference, kAbsolute + kRelative * std::abs(difference)) << name;
    EXPECT_GT(norm, 0) << name << " is not trained";
  }
}

INSTANTIATE_TEST_SUITE_P(Models, WholeNetGradient, ::testing::ValuesIn(distinct_models()),
                         model_name);

}  // namespace
}  // namespace crossbow::testing
