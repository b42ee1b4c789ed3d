// Shape rules of the ops that need few words: element-wise, scale and bias, reshape, concat,
// softmax, losses.
#include <gtest/gtest.h>

#include "graph/source.h"
#include "ops/activation.h"
#include "ops/elementwise.h"
#include "ops/gelu.h"
#include "ops/loss.h"
#include "ops/scale_bias.h"
#include "ops/shape_ops.h"
#include "ops/softmax.h"
#include "passes/autodiff.h"
#include "support/error_text.h"

namespace crossbow::testing {
namespace {

struct ShapesTest : ::testing::Test {
  Graph graph;
  Tensor x(Shape shape) { return input(graph, shape); }
  Tensor labels(Shape shape) { return input(graph, shape, 1, DType::i32, "labels"); }
};

TEST_F(ShapesTest, Elementwise) {
  EXPECT_EQ(relu(x({2, 3})).shape(), (Shape{2, 3}));
  EXPECT_EQ(add(x({2, 3, 4, 4}), x({2, 3, 4, 4})).shape(), (Shape{2, 3, 4, 4}));
  EXPECT_EQ(error_of([&] {
              add(x({2, 3, 4, 4}), x({2, 5, 4, 4}));
            }),
            "layer add_1: a [2, 3, 4, 4] and b [2, 5, 4, 4] must have the same shape");
  EXPECT_EQ(error_of([&] {
              multiply(x({2, 3}), x({2, 3, 1}));
            }),
            "layer multiply: a [2, 3] and b [2, 3, 1] must have the same shape");
  EXPECT_EQ(error_of([&] { relu(labels({4})); }),
            "layer relu_1: x [4] must hold floating-point numbers, but holds i32");
  EXPECT_EQ(gelu(x({2, 3})).shape(), (Shape{2, 3}));
  EXPECT_EQ(error_of([&] { gelu(labels({4})); }),
            "layer gelu_1: x [4] must hold floating-point numbers, but holds i32");
}

TEST_F(ShapesTest, ScaleBias) {
  EXPECT_EQ(scale_bias(x({2, 3, 4, 4}), x({3}), {}).shape(), (Shape{2, 3, 4, 4}));
  EXPECT_EQ(error_of([&] {
              scale_bias(x({2, 3, 4, 4}), {}, x({4}), "offset");
            }),
            "layer offset: bias must be [3], one value for each channel of x [2, 3, 4, 4], not "
            "[4]");
  EXPECT_EQ(error_of([&] {
              scale_bias(x({2, 3}), {}, {}, "offset");
            }),
            "layer offset: a scale or a bias is needed");
  EXPECT_EQ(error_of([&] { scale_bias(x({2}), x({2}), {}, "offset"); }),
            "layer offset: x must be [N, C, ...], not [2]");
}

TEST_F(ShapesTest, Reshape) {
  EXPECT_EQ(flatten(x({2, 3, 4, 5})).shape(), (Shape{2, 60}));
  EXPECT_EQ(reshape(x({2, 60}), {3, 4, 5}).shape(), (Shape{2, 3, 4, 5}));
  EXPECT_EQ(error_of([&] {
              reshape(x({2, 60}), {3, 4, 6}, "image");
            }),
            "layer image: rows of x [2, 60] have 60 elements and cannot become [3, 4, 6] with 72");
  EXPECT_EQ(error_of([&] {
              reshape(x({2, 60}), {-3, -20}, "image");
            }),
            "layer image: y [2, -3, -20] must have dimensions of at least 1");
  EXPECT_EQ(error_of([&] {
              reshape(x({2, 1}), {1, 1, 1, 1, 1, 1}, "image");
            }),
            "layer image: rows of shape [1, 1, 1, 1, 1, 1] have too many dimensions: at most 5");
}

TEST_F(ShapesTest, Concat) {
  EXPECT_EQ(concat({x({2, 3, 4, 4}), x({2, 5, 4, 4}), x({2, 1, 4, 4})}).shape(),
            (Shape{2, 9, 4, 4}));
  EXPECT_EQ(error_of([&] {
              concat({x({2, 3, 4, 4}), x({2, 5, 4, 3})}, "join");
            }),
            "layer join: part 0 [2, 3, 4, 4] and part 1 [2, 5, 4, 3] must agree in all but "
            "dimension 1");
  EXPECT_EQ(error_of([&] {
              concat({x({2, 3}), x({2, 3, 1, 1})}, "join");
            }),
            "layer join: part 0 [2, 3] and part 1 [2, 3, 1, 1] must agree in all but dimension 1");
  EXPECT_EQ(error_of([&] { concat({x({2})}, "join"); }),
            "layer join: part 0 must be [N, C, ...], not [2]");
  EXPECT_EQ(error_of([] { concat({}); }), "concat needs at least one tensor");
}

TEST_F(ShapesTest, ConcatGradientSlicesOnlyWhatIsWanted) {
  const Tensor w = parameter(graph, {2, 3}, {}, "w");
  const Tensor y = concat({x({2, 5}), w});
  differentiate(graph, mean_squared_error(y, x({2, 8})).value);
  const std::vector<int32_t> slices = graph.find("slice_channels");
  ASSERT_EQ(slices.size(), 1u);
  EXPECT_EQ(graph.nodes()[slices[0]].attrs<SliceAttributes>().begin, 5);
  EXPECT_EQ(graph.nodes()[slices[0]].outputs[0].shape, (Shape{2, 3}));
}

TEST_F(ShapesTest, SoftmaxAndLosses) {
  EXPECT_EQ(softmax(x({4, 10})).shape(), (Shape{4, 10}));
  const Tensor loss = softmax_cross_entropy(x({4, 10}), labels({4}));
  EXPECT_EQ(loss.shape(), Shape{});
  EXPECT_EQ(loss.output(1).shape(), (Shape{4, 10}));
  EXPECT_EQ(sigmoid_cross_entropy(x({4, 10}), x({4, 10})).shape(), Shape{});
  EXPECT_EQ(mean_squared_error(x({4, 2, 3, 3}), x({4, 2, 3, 3})).shape(), Shape{});
  EXPECT_EQ(accuracy(x({4, 10}), labels({4}), 5).shape(), Shape{});
}

TEST_F(ShapesTest, SoftmaxAndLossErrors) {
  EXPECT_EQ(error_of([&] {
              softmax(x({4, 10, 2, 2}));
            }),
            "layer softmax: x must be [N, C], not [4, 10, 2, 2]");
  EXPECT_EQ(error_of([&] {
              softmax_cross_entropy(x({4, 10}), labels({5}));
            }),
            "layer softmax_cross_entropy: labels must be i32 [4], one for each row of [4, 10], not "
            "i32 [5]");
  EXPECT_EQ(error_of([&] {
              softmax_cross_entropy(x({4, 10}), x({4}));
            }),
            "layer softmax_cross_entropy: labels must be i32 [4], one for each row of [4, 10], not "
            "f32 [4]");
  EXPECT_EQ(error_of([&] {
              softmax_cross_entropy(x({4, 10}), labels({4}), 1);
            }),
            "layer softmax_cross_entropy: the label smoothing 1 must be in [0, 1)");
  EXPECT_EQ(error_of([&] {
              sigmoid_cross_entropy(x({4, 10}), x({4, 9}));
            }),
            "layer sigmoid_cross_entropy: logits [4, 10] and targets [4, 9] must have the same "
            "shape");
  EXPECT_EQ(error_of([&] {
              accuracy(x({4, 10}), labels({4}), 11);
            }),
            "layer accuracy: top-11 accuracy needs k in 1 to 10, the classes");
}

TEST_F(ShapesTest, TargetsThatAreTrainedAreRefused) {
  const Tensor target = parameter(graph, {4, 2}, {}, "target");
  const Tensor loss = mean_squared_error(x({4, 2}), target);
  EXPECT_EQ(error_of([&] { differentiate(graph, loss.value); }),
            "layer mean_squared_error: a loss is not differentiated with respect to its targets, "
            "but they depend on parameters");
}

}  // namespace
}  // namespace crossbow::testing
