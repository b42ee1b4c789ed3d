#include "ops/dense.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "graph/op.h"
#include "graph/source.h"
#include "ops/loss.h"
#include "passes/autodiff.h"
#include "support/error_text.h"
#include "support/graph_testing.h"

namespace crossbow::testing {
namespace {

struct DenseTest : ::testing::Test {
  Graph graph;

  Tensor weights(Shape shape) { return parameter(graph, shape, {}, "w"); }
  Tensor layer(Shape x, Shape w, Tensor bias = {}) {
    return dense(input(graph, x), weights(w), bias, "fc1");
  }
  std::string error(Shape x, Shape w, Tensor bias = {}) {
    return error_of([&] { layer(x, w, bias); });
  }
};

TEST_F(DenseTest, OutputShapes) {
  EXPECT_EQ(layer({16, 300}, {512, 300}).shape(), (Shape{16, 512}));
  EXPECT_EQ(layer({16, 64, 4, 5}, {10, 1280}, weights({10})).shape(), (Shape{16, 10}));
}

TEST_F(DenseTest, ErrorsNameTheLayerAndBothShapes) {
  EXPECT_EQ(error({16, 50, 4, 5}, {500, 800}),
            "layer fc1: dense weights [500, 800] need 800 inputs per row, but x [16, 50, 4, 5] has "
            "1000");
  EXPECT_EQ(error({16}, {500, 1}), "layer fc1: x must be [N, C] or [N, C, H, W], not [16]");
  EXPECT_EQ(error({16, 8}, {5, 8, 1, 1}),
            "layer fc1: dense weights must be [outputs, inputs], not [5, 8, 1, 1]");
  EXPECT_EQ(error({16, 8}, {5, 8}, weights({8})),
            "layer fc1: bias must be [5], one value for each output of the weights [5, 8], not "
            "[8]");
}

TEST_F(DenseTest, GradientShapesAndFlops) {
  const Tensor hidden = layer({3, 2, 4, 4}, {7, 32}, weights({7}));
  const Tensor y = dense(hidden, weights({5, 7}), {}, "fc2");
  const Tensor loss = mean_squared_error(y, input(graph, y.shape(), 1));
  differentiate(graph, loss.value);

  ASSERT_EQ(graph.find("dense_grad_input").size(), 1u);
  const Node& grad_input = graph.nodes()[graph.find("dense_grad_input")[0]];
  EXPECT_EQ(grad_input.outputs[0].shape, (Shape{3, 7}));
  EXPECT_EQ(grad_input.op->flops(grad_input, graph.input_types(grad_input)), 2.0 * 3 * 7 * 5);
  const Node& grad_weights = graph.nodes()[graph.find("dense_grad_weights").back()];
  ASSERT_EQ(grad_weights.outputs.size(), 2u);
  EXPECT_EQ(grad_weights.outputs[0].shape, (Shape{7, 32}));
  EXPECT_EQ(grad_weights.outputs[1].shape, (Shape{7}));
  EXPECT_EQ(grad_weights.op->flops(grad_weights, graph.input_types(grad_weights)),
            2.0 * 3 * 7 * 32);
}

TEST_F(DenseTest, FusedActivationIsUndoneBeforeTheProducts) {
  auto attributes = std::make_shared<DenseAttributes>();
  attributes->activation = Activation::sigmoid;
  const Tensor x = input(graph, {3, 4}), w = weights({5, 4});
  const Tensor y = graph.append(find_op("dense"), {x.value, w.value, {}}, attributes);
  differentiate(graph, mean_squared_error(y, input(graph, y.shape(), 1)).value);
  const std::vector<int32_t> undone = graph.find("activation_grad");
  ASSERT_EQ(undone.size(), 1u);
  EXPECT_EQ(graph.nodes()[undone[0]].attrs<ActivationAttributes>().activation, Activation::sigmoid);
  EXPECT_EQ(graph.nodes()[undone[0]].inputs[1], y.value);
  EXPECT_EQ(graph.nodes()[graph.find("dense_grad_weights")[0]].inputs[1].node, undone[0]);
}

/// Also where the library computes the product: a net that diverges must not look sound.
TEST(DenseRun, NotANumberGoesThroughAnActivation) {
  for (const int64_t outputs : {10, 128}) {
    for (const Activation activation :
         {Activation::relu, Activation::relu6, Activation::sigmoid, Activation::tanh}) {
      Graph graph("dense");
      const Tensor x = input(graph, {3, 64}, 0);
      const Tensor w = parameter(graph, {outputs, 64}, Initialiser::constant(0.1f), "w");
      auto attributes = std::make_shared<DenseAttributes>();
      attributes->activation = activation;
      const Tensor y = graph.append(find_op("dense"), {x.value, w.value}, attributes, "fc");
      graph.set_output("y", y.value);
      for (const CompileOptions& options :
           {reference(DType::f32), cpu(), cpu(DType::f32, 2), cpu(DType::bf16)}) {
        GraphRun run(graph, options);
        std::vector<double> weights = run.get("w");
        std::fill_n(weights.begin(), 64, NAN);  // of the first output
        run.set("w", weights);
        run.run();
        const std::vector<double> result = run.values("y");
        for (size_t i = 0; i < result.size(); ++i) {
          ASSERT_EQ(std::isnan(result[i]), i % static_cast<size_t>(outputs) == 0)
              << name_of(activation) << ' ' << options.device << ' ' << outputs << ' ' << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace crossbow::testing
