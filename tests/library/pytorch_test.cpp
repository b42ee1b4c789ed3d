// Twenty steps of a session against PyTorch's: losses, weights and running statistics.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "small_net.h"

namespace {

using nlohmann::json;

json golden() {
  std::ifstream file(CROSSBOW_GOLDEN "/pytorch_steps.json");
  return json::parse(file);
}

/// PyTorch's running variance is that of the unbiased estimate; ours, as ONNX's, of the biased one.
/// Both start at 1 and keep 0.9 in each step.
double biased(double running_variance) {
  constexpr double kValues = small_net::kBatch * small_net::kSide * small_net::kSide;
  const double first = std::pow(0.9, small_net::kSteps);
  return first + (running_variance - first) * (kValues - 1) / kValues;
}

class PyTorch : public ::testing::TestWithParam<const char*> {};

TEST_P(PyTorch, TakesTheSameSteps) {
  const json expected = golden();
  crossbow::Session session = small_net::session(GetParam());
  const std::vector<double> losses = small_net::train(session);
  for (size_t step = 0; step < losses.size(); ++step) {
    EXPECT_NEAR(losses[step], expected["losses"][step].get<double>(), 2e-6) << "step " << step;
  }
  size_t compared = 0;
  for (const crossbow::SessionTensor& tensor : session.tensors()) {
    const auto theirs = expected["tensors"][tensor.name].get<std::vector<double>>();
    const std::vector<float> ours = session.get(tensor.name);
    ASSERT_EQ(ours.size(), theirs.size()) << tensor.name;
    const bool variance = tensor.name == "norm1.running_var";
    for (size_t i = 0; i < ours.size(); ++i) {
      const double wanted = variance ? biased(theirs[i]) : theirs[i];
      EXPECT_NEAR(static_cast<double>(ours[i]), wanted, 5e-6) << tensor.name << ' ' << i;
    }
    ++compared;
  }
  EXPECT_EQ(compared, expected["tensors"].size());
}

INSTANTIATE_TEST_SUITE_P(Devices, PyTorch, testing::Values("cpu", "ref"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
