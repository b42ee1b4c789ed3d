#include "ops/batch_norm.h"

#include <gtest/gtest.h>

#include <cmath>

#include "graph/op.h"
#include "graph/source.h"
#include "ops/loss.h"
#include "passes/autodiff.h"
#include "support/error_text.h"
#include "support/graph_testing.h"

namespace crossbow::testing {
namespace {

struct BatchNormTest : ::testing::Test {
  Graph graph;
  BatchNormAttributes attributes;

  Tensor vector(int64_t n) { return parameter(graph, {n}, {}, "scale"); }
  Tensor statistics(int64_t n) { return state(graph, {n}, 0, "running"); }
  Tensor norm(Tensor x, int64_t scale, int64_t running) {
    return batch_norm(x, vector(scale), vector(scale), statistics(running), statistics(running),
                      attributes, "bn");
  }
  std::string error(Tensor x, int64_t scale, int64_t running) {
    return error_of([&] { norm(x, scale, running); });
  }
  /// As fusion makes it.
  Tensor with_residual(Tensor x, Tensor residual, bool relu) {
    const int64_t channels = x.shape()[1];
    auto a = std::make_shared<BatchNormAttributes>();
    if (relu) a->activation = Activation::relu;
    return graph.append(find_op("batch_norm"),
                        {x.value, vector(channels).value, vector(channels).value,
                         statistics(channels).value, statistics(channels).value, residual.value},
                        a, "bn");
  }
};

TEST_F(BatchNormTest, GivesItsStatisticsInTraining) {
  const Tensor y = norm(input(graph, {4, 6, 3, 3}), 6, 6);
  EXPECT_EQ(y.shape(), (Shape{4, 6, 3, 3}));
  ASSERT_EQ(graph.node(y.value).outputs.size(), 3u);
  EXPECT_EQ(y.output(1).shape(), (Shape{6}));
  EXPECT_EQ(y.output(2).shape(), (Shape{6}));
  attributes.training = false;
  EXPECT_EQ(graph.node(norm(input(graph, {4, 6}), 6, 6).value).outputs.size(), 1u);
}

TEST_F(BatchNormTest, Errors) {
  const Tensor x = input(graph, {4, 6, 3, 3});
  EXPECT_EQ(error(x, 5, 6),
            "layer bn: scale must be [6], one value for each channel of x [4, 6, 3, 3], not "
            "[5]");
  EXPECT_EQ(error(x, 6, 3),
            "layer bn: running mean must be [6], one value for each channel of x [4, 6, 3, 3], "
            "not [3]");
  EXPECT_EQ(error(input(graph, {4}), 4, 4), "layer bn: x must be [N, C] or [N, C, H, W], not [4]");
  EXPECT_EQ(error_of([&] {
              with_residual(x, input(graph, {4, 6, 3, 2}), true);
            }),
            "layer bn: x [4, 6, 3, 3] and residual [4, 6, 3, 2] must have the same shape");
  attributes.activation = Activation::tanh;
  EXPECT_EQ(
      error(x, 6, 6),
      "layer bn: batch norm does not take the activation 'tanh'; use an op of its own for it");
  attributes.epsilon = 0;
  EXPECT_EQ(error(x, 6, 6),
            "layer bn: batch norm's epsilon 0 must be above 0 and its momentum 0.9 in [0, 1]");
}

TEST_F(BatchNormTest, OnlyAReluMakesTheResidualsGradientItsOwn) {
  for (const bool relu : {false, true}) {
    Graph fresh;
    graph = fresh;
    const Tensor x = parameter(graph, {4, 6}, {}, "x"), r = parameter(graph, {4, 6}, {}, "r");
    const Tensor y = with_residual(x, r, relu);
    differentiate(graph, mean_squared_error(y, input(graph, y.shape(), 1)).value);
    const int32_t id = graph.find("batch_norm_grad").at(0);
    const Node& grad = graph.nodes()[id];
    EXPECT_EQ(grad.outputs.size(), relu ? 4u : 3u);
    EXPECT_EQ(grad.has_input(6), relu);
    EXPECT_EQ(graph.output("gradient:r"), relu ? (Value{id, 3}) : grad.inputs[0]);
    EXPECT_EQ(graph.output("gradient:x"), (Value{id, 0}));
  }
}

TEST_F(BatchNormTest, HasNoGradientOfItsScaleInInference) {
  attributes.training = false;
  const Tensor y = norm(parameter(graph, {4, 6}, {}, "x"), 6, 6);
  const Tensor loss = mean_squared_error(y, input(graph, y.shape(), 1));
  EXPECT_EQ(error_of([&] { differentiate(graph, loss.value); }),
            "layer bn: batch norm by running statistics has a gradient of x only: freeze its scale "
            "and shift, or leave `training`");
}

TEST_F(BatchNormTest, IsNotDifferentiatedOverASingleValue) {
  const auto error = [&](Shape shape) {
    graph = Graph();
    const Tensor y = norm(parameter(graph, shape, {}, "x"), 6, 6);
    const Tensor loss = mean_squared_error(y, input(graph, y.shape(), 1));
    return error_of([&] { differentiate(graph, loss.value); });
  };
  for (const Shape& shape : {Shape{1, 6}, {1, 6, 1, 1}}) {
    EXPECT_EQ(error(shape),
              "layer bn: batch norm learns from more than one value for each channel, "
              "but x is " +
                  shape.str() + "; train on at least 2 rows at a time");
  }
  for (const Shape& shape : {Shape{2, 6}, {2, 6, 1, 1}, {1, 6, 1, 2}}) {
    EXPECT_EQ(error(shape), "no error");
  }
}

/// As where statistics are measured: 0 times infinity would be no number.
TEST(BatchNormRun, WithMomentumZeroForgetsWhateverThereWas) {
  Graph graph("norm");
  BatchNormAttributes attributes;
  attributes.momentum = 0;
  const auto vector = [&](const char* name) {
    return parameter(graph, {6}, Initialiser::constant(1), name);
  };
  const Tensor y =
      batch_norm(input(graph, {4, 6}, 0), vector("scale"), vector("shift"),
                 state(graph, {6}, 0, "mean"), state(graph, {6}, 1, "variance"), attributes, "bn");
  graph.set_output("y", y.value);
  for (const CompileOptions& options : {reference(DType::f32), cpu()}) {
    GraphRun run(graph, options);
    run.set("variance", std::vector<double>(6, INFINITY));
    run.run();
    for (const double v : run.get("variance")) EXPECT_TRUE(std::isfinite(v)) << options.device;
  }
}

}  // namespace
}  // namespace crossbow::testing
