#include "ops/conv2d.h"

#include <gtest/gtest.h>

#include "graph/op.h"
#include "graph/source.h"
#include "models/layers.h"
#include "ops/loss.h"
#include "passes/autodiff.h"
#include "support/error_text.h"

namespace crossbow::testing {
namespace {

struct Conv2dTest : ::testing::Test {
  Graph graph;
  Conv2dAttributes attributes;

  Tensor weights(Shape shape) { return parameter(graph, shape, {}, "w"); }
  Tensor conv(Shape x, Shape w, Tensor bias = {}) {
    return conv2d(input(graph, x), weights(w), bias, attributes, "conv1");
  }
  std::string error(Shape x, Shape w, Tensor bias = {}) {
    return error_of([&] { conv(x, w, bias); });
  }
};

TEST_F(Conv2dTest, OutputShapes) {
  EXPECT_EQ(conv({16, 1, 28, 28}, {32, 1, 5, 5}).shape(), (Shape{16, 32, 24, 24}));
  attributes.padding = 1;
  EXPECT_EQ(conv({2, 3, 7, 9}, {8, 3, 3, 3}).shape(), (Shape{2, 8, 7, 9}));
  attributes.stride = 2;
  EXPECT_EQ(conv({2, 3, 7, 8}, {8, 3, 3, 3}).shape(), (Shape{2, 8, 4, 4}));
  attributes.dilation = 2;
  EXPECT_EQ(conv({2, 3, 8, 9}, {8, 3, 3, 3}).shape(), (Shape{2, 8, 3, 4}));
  attributes.groups = 3;
  EXPECT_EQ(conv({2, 3, 8, 9}, {6, 1, 3, 3}).shape(), (Shape{2, 6, 3, 4}));
}

TEST_F(Conv2dTest, EachAxisHasItsOwnWindow) {
  attributes.padding = {0, 3};
  EXPECT_EQ(conv({2, 3, 7, 9}, {8, 3, 1, 7}).shape(), (Shape{2, 8, 7, 9}));
  attributes.stride = {1, 2};
  EXPECT_EQ(conv({2, 3, 7, 9}, {8, 3, 1, 7}).shape(), (Shape{2, 8, 7, 5}));
  attributes.dilation = {3, 2};
  EXPECT_EQ(conv({2, 3, 7, 9}, {8, 3, 2, 7}).shape(), (Shape{2, 8, 4, 2}));
}

/// TensorFlow's SAME: as many windows as a stride has pixels, ceil(size / stride).
TEST_F(Conv2dTest, PadsBySide) {
  attributes.stride = 2;
  attributes.padding = {0, 0, 1, 1};
  EXPECT_EQ(conv({2, 3, 8, 6}, {8, 3, 3, 3}).shape(), (Shape{2, 8, 4, 3}));
  attributes.padding = {1, 0, 2, 1};
  attributes.stride = 1;
  EXPECT_EQ(conv({2, 3, 8, 6}, {8, 3, 3, 3}).shape(), (Shape{2, 8, 9, 5}));
}

TEST_F(Conv2dTest, LayersTakeOneNumberOrOneForEachAxis) {
  const Tensor x = input(graph, {2, 3, 9, 8});
  const auto shape = [&](const Conv2d& layer) { return conv2d(x, layer).shape(); };
  EXPECT_EQ(shape({.filters = 4, .kernel = 3, .stride = 2, .padding = 1}), (Shape{2, 4, 5, 4}));
  EXPECT_EQ(shape({.filters = 4, .kernel = {1, 7}, .padding = {0, 3}}), (Shape{2, 4, 9, 8}));
  EXPECT_EQ(shape({.filters = 4, .stride = {1, 2}, .padding = {0, 0, 2, 1}}), (Shape{2, 4, 9, 4}));
  EXPECT_EQ(shape({.filters = 4, .dilation = {4, 1}}), (Shape{2, 4, 1, 6}));
}

TEST_F(Conv2dTest, ErrorsNameTheLayerAndBothShapes) {
  EXPECT_EQ(error({16, 3, 32, 32}, {50, 20, 5, 5}),
            "layer conv1: conv2d weights [50, 20, 5, 5] in 1 group need 20 input channels, but x "
            "[16, 3, 32, 32] has 3");
  EXPECT_EQ(error({16, 300}, {8, 3, 3, 3}), "layer conv1: x must be [N, C, H, W], not [16, 300]");
  EXPECT_EQ(error({1, 3, 4, 9}, {8, 3, 5, 5}),
            "layer conv1: conv2d weights [8, 3, 5, 5] with dilation 1 are larger than x "
            "[1, 3, 4, 9] with padding 0");
  EXPECT_EQ(error({1, 3, 8, 8}, {8, 3, 3, 3}, weights({3})),
            "layer conv1: bias must be [8], one value for each output of the weights "
            "[8, 3, 3, 3], not [3]");
  EXPECT_EQ(error({1, 3, 8, 8}, {8, 0, 3, 3}),
            "layer conv1: conv2d weights [8, 0, 3, 3] must have dimensions of at "
            "least 1");
  attributes.groups = 2;
  EXPECT_EQ(
      error({1, 6, 8, 8}, {9, 3, 3, 3}),
      "layer conv1: conv2d weights [9, 3, 3, 3] have 9 outputs, which 2 groups do not divide");
  attributes.stride = 0;
  EXPECT_EQ(error({1, 6, 8, 8}, {8, 3, 3, 3}),
            "layer conv1: stride 0, dilation 1 and groups 2 must be at least 1 and padding 0 at "
            "least 0");
  attributes.stride = {1, 2};
  attributes.padding = {1, -1};
  EXPECT_EQ(error({1, 6, 8, 8}, {8, 3, 3, 3}),
            "layer conv1: stride 1x2, dilation 1 and groups 2 must be at least 1 and padding 1x-1 "
            "at least 0");
  attributes.padding = {0, 0, 1, 1};
  attributes.dilation = {1, 9};
  EXPECT_EQ(error({1, 6, 8, 8}, {8, 3, 3, 3}),
            "layer conv1: conv2d weights [8, 3, 3, 3] with dilation 1x9 are larger than x "
            "[1, 6, 8, 8] with padding 0,0,1,1");
}

TEST_F(Conv2dTest, CountsMultiplyAddsAsTwo) {
  attributes.groups = 2;
  const Tensor y = conv({3, 4, 6, 6}, {10, 2, 3, 3});
  const Node& node = graph.node(y.value);
  EXPECT_EQ(node.op->flops(node, graph.input_types(node)), 2.0 * 3 * 10 * 4 * 4 * 2 * 3 * 3);
}

TEST_F(Conv2dTest, GradientIsBuiltOnlyForWhatNeedsIt) {
  const Tensor bias = weights({8});
  const Tensor first = conv({2, 3, 8, 8}, {8, 3, 3, 3}, bias);
  const Tensor second = conv2d(first, weights({4, 8, 3, 3}), {}, attributes, "conv2");
  const Tensor loss = mean_squared_error(second, input(graph, second.shape(), 1));
  differentiate(graph, loss.value);

  // The images need no gradient; the first layer's output does.
  ASSERT_EQ(graph.find("conv2d_grad_input").size(), 1u);
  const std::vector<int32_t> grad_weights = graph.find("conv2d_grad_weights");
  ASSERT_EQ(grad_weights.size(), 2u);
  EXPECT_EQ(graph.nodes()[grad_weights[0]].outputs.size(), 1u);
  const Node& of_first = graph.nodes()[grad_weights[1]];
  EXPECT_EQ(of_first.name, "conv1.conv2d_grad_weights");
  ASSERT_EQ(of_first.outputs.size(), 2u);
  EXPECT_EQ(of_first.outputs[0].shape, (Shape{8, 3, 3, 3}));
  EXPECT_EQ(of_first.outputs[1].shape, (Shape{8}));
  const Node& grad_input = graph.nodes()[graph.find("conv2d_grad_input")[0]];
  EXPECT_EQ(grad_input.outputs[0].shape, first.shape());

  // All three do the work of the forward convolution.
  const Node& forward = graph.node(second.value);
  const double flops = forward.op->flops(forward, graph.input_types(forward));
  EXPECT_EQ(grad_input.op->flops(grad_input, graph.input_types(grad_input)), flops);
  const Node& of_second = graph.nodes()[grad_weights[0]];
  EXPECT_EQ(of_second.op->flops(of_second, graph.input_types(of_second)), flops);
}

}  // namespace
}  // namespace crossbow::testing
