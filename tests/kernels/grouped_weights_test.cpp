// Weights of grouped convolutions lie in the replica as the library reads and writes them.
#include <algorithm>

#include "models/layers.h"
#include "passes/passes.h"
#include "support/model_testing.h"

namespace crossbow::testing {
namespace {

/// Between two layers whose channels lie in blocks.
Graph net(int64_t groups) {
  Graph graph;
  Tensor x = input(graph, {2, 3, 9, 9}, kSamples, DType::f32, "images");
  x = conv2d(x, Conv2d{.filters = 64, .padding = 1, .bias = false}, "first");
  x = conv2d(x, Conv2d{.filters = 64, .padding = 1, .groups = groups, .bias = false}, "grouped");
  x = conv2d(x, Conv2d{.filters = 16, .kernel = 1, .bias = false}, "last");
  graph.set_output("loss", mean_squared_error(x, input(graph, x.shape(), kLabels)).value);
  return graph;
}

int64_t conversions(const Program& program) {
  return std::ranges::count_if(program.kernel_infos(), [](const Program::KernelInfo& info) {
    return info.kind == "reorder" && info.name == "grouped.weight";
  });
}

/// By how many groups, and how often a training step converts weights: where groups have several
/// channels the gradient of the input reads them in another order, as without groups.
struct Sample {
  int64_t groups, conversions;
};

class GroupedWeights : public ::testing::TestWithParam<Sample> {};

TEST_P(GroupedWeights, AreTheLibrarys) {
  const Graph forward = net(GetParam().groups);
  CompileOptions options = cpu();
  const auto training = Program::compile(with_gradients(forward), options);
  const Layout& weights = training->parameters()->find("grouped.weight")->layout;
  EXPECT_EQ(weights.shape, (Shape{64, 64 / GetParam().groups, 3, 3}));
  EXPECT_FALSE(weights.blocks.empty());
  EXPECT_EQ(conversions(*training), GetParam().conversions);
  options.parameters = training->parameters();
  EXPECT_EQ(conversions(*Program::compile(forward, options)), 0);
  const auto another = Program::compile(with_gradients(with_batch(forward, 1)), options);
  EXPECT_EQ(conversions(*another), GetParam().conversions);
}

INSTANTIATE_TEST_SUITE_P(Groups, GroupedWeights, ::testing::Values(Sample{64, 0}, Sample{2, 1}),
                         [](const auto& info) { return std::to_string(info.param.groups); });

}  // namespace
}  // namespace crossbow::testing
