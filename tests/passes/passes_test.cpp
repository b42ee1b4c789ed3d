#include "passes/passes.h"

#include <gtest/gtest.h>

#include "graph/dot.h"
#include "graph/op.h"
#include "models/layers.h"
#include "ops/activation.h"
#include "ops/batch_norm.h"
#include "ops/dense.h"
#include "ops/dropout.h"
#include "ops/elementwise.h"
#include "ops/scale_bias.h"
#include "support/error_text.h"

namespace crossbow {
namespace {

std::vector<std::string> ops_of(const Graph& graph) {
  std::vector<std::string> ops;
  for (const Node& node : graph.nodes()) {
    const bool source = node.inputs.empty();
    if (!source) ops.emplace_back(node.op->name);
  }
  return ops;
}

using Ops = std::vector<std::string>;

TEST(Fusion, PutsBiasIntoConvolution) {
  Graph g;
  g.set_output("y", conv2d(input(g, {2, 3, 8, 8}), Conv2d{.filters = 4}, "c").value);
  EXPECT_EQ(ops_of(g), (Ops{"conv2d", "scale_bias"}));
  const Graph fused = fuse(g);
  EXPECT_EQ(ops_of(fused), Ops{"conv2d"});
  EXPECT_TRUE(fused.node(fused.output("y")).has_input(2));
}

TEST(Fusion, PutsBiasAndActivationIntoDense) {
  Graph g;
  g.set_output("y", sigmoid(dense(input(g, {2, 3}), Dense{.outputs = 4}, "d")).value);
  const Graph fused = fuse(g);
  EXPECT_EQ(ops_of(fused), Ops{"dense"});
  EXPECT_EQ(fused.node(fused.output("y")).attrs<DenseAttributes>().activation, Activation::sigmoid);
}

TEST(Fusion, LeavesABiasBehindAnActivationThere) {
  Graph g;
  const Tensor x = relu(dense(input(g, {2, 3}), Dense{.outputs = 4, .bias = false}, "d"));
  g.set_output("y", scale_bias(x, {}, parameter(g, {4}, {}, "b")).value);
  EXPECT_EQ(ops_of(fuse(g)), (Ops{"dense", "scale_bias"}));
}

TEST(Fusion, PutsARelu6IntoBatchNormWithoutAResidual) {
  Graph g;
  const Tensor x = input(g, {2, 4, 8, 8});
  g.set_output("y", relu6(batch_norm(x, {}, "bn")).value);
  const Graph fused = fuse(g);
  EXPECT_EQ(ops_of(fused), Ops{"batch_norm"});
  EXPECT_EQ(fused.node(fused.output("y")).attrs<BatchNormAttributes>().activation,
            Activation::relu6);
  g.set_output("y", relu6(add(batch_norm(x, {}, "bn2"), x)).value);
  EXPECT_EQ(ops_of(fuse(remove_dead(g))), (Ops{"batch_norm", "relu6"}));
}

TEST(Fusion, MakesAResidualBlockEndInOneNode) {
  Graph g;
  const Tensor x = input(g, {2, 4, 8, 8});
  g.set_output("y", relu(add(batch_norm(x, {}, "bn"), x)).value);
  const Graph fused = fuse(g);
  EXPECT_EQ(ops_of(fused), Ops{"batch_norm"});
  const Node& node = fused.node(fused.output("y"));
  EXPECT_EQ(node.attrs<BatchNormAttributes>().activation, Activation::relu);
  EXPECT_TRUE(node.has_input(5));
}

TEST(Fusion, OfTwoBatchNormsOneTakesTheAddition) {
  Graph g;
  const Tensor x = input(g, {2, 4, 8, 8});
  g.set_output("y", relu(add(batch_norm(x, {}, "a"), batch_norm(x, {}, "b"))).value);
  EXPECT_EQ(ops_of(fuse(g)), (Ops{"batch_norm", "batch_norm"}));
}

TEST(Fusion, LeavesAValueAloneThatHasAnotherUse) {
  Graph g;
  const Tensor sum = add(input(g, {2, 4}), parameter(g, {2, 4}, {}, "p"));
  g.set_output("y", relu(sum).value);
  g.set_output("sum", sum.value);
  EXPECT_EQ(ops_of(fuse(g)), (Ops{"add", "relu"}));
}

TEST(Fusion, LeavesAnActivationOfStatisticsAlone) {
  Graph g;
  const Tensor bn = batch_norm(input(g, {2, 4, 8, 8}), {}, "bn");
  g.set_output("y", relu(bn.output(1)).value);
  EXPECT_EQ(ops_of(fuse(g)), (Ops{"batch_norm", "relu"}));
}

TEST(Passes, InferenceDropsDropoutAndFreezesBatchNorm) {
  Graph g;
  const Tensor x = input(g, {2, 4, 8, 8});
  g.set_output("y", dropout(batch_norm(x, {}, "bn"), 0.5f).value);
  const Graph inference = for_inference(g);
  EXPECT_EQ(ops_of(inference), Ops{"batch_norm"});
  EXPECT_FALSE(inference.node(inference.output("y")).attrs<BatchNormAttributes>().training);
}

TEST(Passes, AnotherBatchChangesTheFirstDimensionAlone) {
  Graph g;
  g.set_output("y", dense(input(g, {2, 3, 4, 4}), Dense{.outputs = 5}, "d").value);
  const Graph other = with_batch(g, 7);
  EXPECT_EQ(other.type(other.output("y")).shape, (Shape{7, 5}));
  EXPECT_EQ(other.find("parameter").size(), 2u);
}

TEST(Passes, AnotherBatchHasAsManyConstants) {
  Graph g;
  const Tensor x = input(g, {2, 4});
  g.set_output("y", multiply(add(x, fill_like(x, 1)), add(x, x)).value);
  g.set_output("fixed", fill(g, {2, 4}, 1).value);
  const Graph other = with_batch(g, 7);
  EXPECT_EQ(other.type(other.output("y")).shape, (Shape{7, 4}));
  EXPECT_EQ(other.type(other.output("fixed")).shape, (Shape{2, 4}));
}

TEST(Passes, ABatchHasFiveFields) {
  Graph g;
  EXPECT_EQ(testing::error_of([&] { input(g, {2, 4}, 5); }), "a batch has fields 0 to 4, and no 5");
}

TEST(Passes, DeadCodeGoesParametersAndStatesStay) {
  Graph g;
  const Tensor x = input(g, {2, 4});
  batch_norm(x);
  parameter(g, {3}, {}, "kept");
  g.set_output("y", sigmoid(x).value);
  const Graph live = remove_dead(g);
  EXPECT_EQ(ops_of(live), Ops{"sigmoid"});
  EXPECT_EQ(live.find("parameter").size(), 3u);
  EXPECT_EQ(live.find("state").size(), 2u);
}

TEST(Dot, ShowsLayersAndShapesButFoldsParameters) {
  Graph g;
  g.set_output("y", dense(input(g, {2, 3}), Dense{.outputs = 4}, "head").value);
  const std::string dot = to_dot(g);
  EXPECT_NE(dot.find("head"), std::string::npos);
  EXPECT_NE(dot.find("[2, 3]"), std::string::npos);
  EXPECT_EQ(dot.find("head.weight"), std::string::npos);
}

}  // namespace
}  // namespace crossbow
