#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/rng.h"
#include "device/buffer.h"
#include "device/sgd.h"
#include "device/vector_math.h"

namespace crossbow {
namespace {

struct Settings {
  Sgd sgd;
  double clip_norm = 0;
};

/// torch.optim.SGD, written out for one tensor, with clip_grad_norm_ before it.
struct Reference {
  Settings settings;
  std::vector<double> w, v;

  void step(std::vector<double> g, double lr) {
    const auto& [sgd, clip_norm] = settings;
    if (clip_norm > 0) {
      double sum = 0;
      for (const double x : g) sum += x * x;
      const double scale = clip_norm / (std::sqrt(sum) + 1e-6);
      for (double& x : g) x *= std::min(1.0, scale);
    }
    for (size_t i = 0; i < w.size(); ++i) {
      const double d = g[i] + sgd.weight_decay.factor * w[i];
      v[i] = sgd.momentum * v[i] + d;
      w[i] -= lr * (sgd.momentum == 0 ? d : sgd.nesterov ? d + sgd.momentum * v[i] : v[i]);
    }
  }
};

/// Both take ten steps with gradients of random numbers.
void compare(const Settings& settings, std::string_view device) {
  constexpr int64_t kSize = 67;
  Rng rng(1, Purpose::synthetic);
  const VectorMath& math = vector_math(device, DType::f32);
  const Buffer weights(kSize * sizeof(float)), gradient(kSize * sizeof(float)),
      momentum(kSize * sizeof(float));
  const Optimizer optimizer = make_sgd(settings.sgd);
  Reference reference{settings, std::vector<double>(kSize), std::vector<double>(kSize)};
  for (int64_t i = 0; i < kSize; ++i) reference.w[i] = weights.as<float>()[i] = rng.gaussian();
  for (int step = 0; step < 10; ++step) {
    std::vector<double> g(kSize);
    for (int64_t i = 0; i < kSize; ++i) g[i] = gradient.as<float>()[i] = rng.gaussian();
    const double lr = 0.1 / (step + 1);  // momentum must not hold the rate of an earlier step
    double squared_norm = 0, scale = 1;
    if (settings.clip_norm > 0) {
      math.squared_norm(gradient.data(), kSize, &squared_norm);
      math.find_clip_scale(settings.clip_norm, &squared_norm, 1, &scale);
    }
    math.update(*optimizer.rule, optimizer.at(lr),
                {weights.data(),
                 gradient.data(),
                 {optimizer.slots.empty() ? nullptr : momentum.data()},
                 nullptr,
                 weights.data(),
                 &scale},
                kSize);
    reference.step(g, lr);
  }
  for (int64_t i = 0; i < kSize; ++i) {
    EXPECT_NEAR(weights.as<float>()[i], reference.w[i], 1e-5) << device << ' ' << i;
  }
}

class Optimizer : public ::testing::TestWithParam<std::string> {};

TEST_P(Optimizer, PlainDescent) {
  compare({}, GetParam());
}
TEST_P(Optimizer, HeavyBall) {
  compare({{.momentum = 0.9}}, GetParam());
}
TEST_P(Optimizer, Nesterov) {
  compare({{.momentum = 0.9, .nesterov = true}}, GetParam());
}
TEST_P(Optimizer, WeightDecay) {
  compare({{.weight_decay = 0.1}}, GetParam());
}
TEST_P(Optimizer, ClipsTheWholeGradient) {
  compare({.clip_norm = 1}, GetParam());
}
TEST_P(Optimizer, LeavesAShortGradientAlone) {
  compare({.clip_norm = 1000}, GetParam());
}
TEST_P(Optimizer, AllAtOnce) {
  compare({{.momentum = 0.8, .weight_decay = 0.05, .nesterov = true}, 2}, GetParam());
}

INSTANTIATE_TEST_SUITE_P(Devices, Optimizer, testing::Values("ref", "cpu"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace crossbow
