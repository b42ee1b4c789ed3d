#include "ops/row_dot.h"

#include <gtest/gtest.h>

#include "graph/source.h"
#include "ops/loss.h"
#include "passes/autodiff.h"
#include "passes/passes.h"
#include "support/error_text.h"
#include "support/graph_testing.h"

namespace crossbow::testing {
namespace {

constexpr int64_t kPairs = 4, kWidth = 5;

/// The gradient of the mean squared distance from 0, and with `decay` that of what it adds.
std::vector<double> gradient_of(const std::string& device, float decay) {
  Graph graph("net");
  const Tensor x = parameter(graph, {kPairs, kWidth}, Initialiser::uniform(-1, 1), "x");
  const Tensor zeros = fill(graph, {kPairs, kWidth}, 0);
  graph.set_output("loss", mean_squared_error(row_decay(x, decay), zeros).value);
  differentiate(graph, graph.output("loss"));
  GraphRun run(graph, device == "cpu" ? cpu() : reference());
  run.run();
  const std::vector<double> gradient = run.gradient("x"), values = run.get("x");
  std::vector<double> factors;
  for (size_t i = 0; i < values.size(); ++i) factors.push_back(gradient[i] / values[i]);
  return factors;
}

TEST(RowDecay, AddsToTheGradientAsFromThePenaltyItself) {
  for (const char* device : {"cpu", "ref"}) {
    for (const double factor : gradient_of(device, 0)) {
      EXPECT_NEAR(factor, 2.0 / (kPairs * kWidth), 1e-5) << device;
    }
    for (const double factor : gradient_of(device, 0.3f)) {
      EXPECT_NEAR(factor, 2.0 / (kPairs * kWidth) + 2 * 0.3 / kPairs, 1e-5) << device;
    }
  }
}

TEST(RowDecay, IsNotThereInInference) {
  Graph graph("net");
  const Tensor x = input(graph, {2, 3});
  graph.set_output("y", row_decay(x, 0.5f).value);
  EXPECT_TRUE(for_inference(graph).find("row_decay").empty());
}

TEST(RowDot, ErrorsNameBothShapes) {
  Graph graph("net");
  const Tensor a = input(graph, {2, 3}), b = input(graph, {2, 4});
  const std::string error = error_of([&] { row_dot(a, b); });
  EXPECT_NE(error.find("[2, 3]"), error.npos) << error;
  EXPECT_NE(error.find("[2, 4]"), error.npos) << error;
  EXPECT_NE(error_of([&] { row_decay(a, -1); }).find("the decay -1 is no number from 0 on"),
            std::string::npos);
}

}  // namespace
}  // namespace crossbow::testing
