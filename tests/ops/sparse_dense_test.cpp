#include "ops/sparse_dense.h"

#include <gtest/gtest.h>

#include <limits>

#include "graph/op.h"
#include "graph/source.h"
#include "ops/loss.h"
#include "ops/sparse_rows.h"
#include "passes/autodiff.h"
#include "passes/passes.h"
#include "support/error_text.h"

namespace crossbow::testing {
namespace {

std::shared_ptr<const RowRoom> room_for(int64_t a_row, int64_t rows) {
  auto room = std::make_shared<RowRoom>();
  for (int64_t r = 0; r <= rows; ++r) room->most.push_back(r * a_row);
  room->mean = static_cast<double>(a_row);
  return room;
}

struct SparseDenseTest : ::testing::Test {
  Graph graph;

  Tensor rows(int64_t n, int64_t features = 30) {
    return sparse_rows(graph, n, features, room_for(4, 16));
  }
  Tensor weights(Shape shape) { return parameter(graph, shape, {}, "w"); }
};

TEST_F(SparseDenseTest, ShapesFollowTheRows) {
  const Tensor x = rows(3);
  EXPECT_EQ(x.shape(), (Shape{12}));
  EXPECT_EQ(x.output(2).shape(), (Shape{3, 2}));
  EXPECT_EQ(features_of(x), 30);
  const Tensor y = sparse_dense(x, weights({7, 30}), weights({7}), "fc1");
  EXPECT_EQ(y.shape(), (Shape{3, 7}));
  graph.set_output("y", y.value);
  const Graph larger = with_batch(graph, 5);
  EXPECT_EQ(larger.type(larger.output("y")).shape, (Shape{5, 7}));
  EXPECT_EQ(larger.nodes()[larger.find("sparse_rows")[0]].outputs[0].shape, (Shape{20}));
}

TEST_F(SparseDenseTest, ErrorsNameTheLayerAndBothShapes) {
  EXPECT_EQ(error_of([&] {
              sparse_dense(rows(3), weights({7, 31}), {}, "fc1");
            }),
            "layer fc1: weights [7, 31] need 31 features, but x has 30");
  EXPECT_EQ(error_of([&] { sparse_dense(rows(3), weights({7}), {}, "fc1"); }),
            "layer fc1: weights must be [outputs, features], not [7]");
  EXPECT_EQ(error_of([&] {
              sparse_dense(rows(3), weights({7, 30}), weights({6}), "fc1");
            }),
            "layer fc1: bias must be [7], one value for each output of the weights [7, 30], not "
            "[6]");
  EXPECT_EQ(error_of([&] {
              sparse_dense(input(graph, {3, 30}), weights({7, 30}), {}, "fc1");
            }),
            "layer fc1: x is no batch of sparse rows");
}

TEST_F(SparseDenseTest, RowsOfTooManyNumbersAreRefused) {
  const auto room = room_for(std::numeric_limits<int32_t>::max() / 2, 3);
  EXPECT_EQ(error_of([&] { sparse_rows(graph, 3, 10, room); }),
            "layer rows: 3 rows may have 3221225469 numbers, which are too many for one batch: "
            "choose fewer rows");
}

TEST_F(SparseDenseTest, GradientShapesAndFlops) {
  const Tensor y = sparse_dense(rows(3), weights({7, 30}), weights({7}), "fc1");
  differentiate(graph, mean_squared_error(y, input(graph, y.shape(), 1)).value);
  const Node& forward = graph.node(y.value);
  EXPECT_EQ(forward.op->flops(forward, graph.input_types(forward)), 2.0 * 3 * 4 * 7);
  const Node& grad = graph.nodes()[graph.find("sparse_dense_grad_weights")[0]];
  ASSERT_EQ(grad.outputs.size(), 2u);
  EXPECT_EQ(grad.outputs[0].shape, (Shape{7, 30}));
  EXPECT_EQ(grad.outputs[1].shape, (Shape{7}));
  EXPECT_EQ(grad.op->flops(grad, graph.input_types(grad)), 2.0 * 3 * 4 * 7);
}

}  // namespace
}  // namespace crossbow::testing
