// Losses over class labels are those over the targets that the labels stand for.
#include "ops/loss.h"

#include "support/error_text.h"
#include "support/graph_testing.h"

namespace crossbow::testing {
namespace {

using LossOp = Tensor (*)(Tensor x, Tensor targets);

struct LossTest : ::testing::TestWithParam<const char*> {
  static CompileOptions device() { return std::string(GetParam()) == "ref" ? reference() : cpu(); }

  /// The loss, and behind it the gradient of x [labels, columns].
  static std::vector<double> run(LossOp loss, const std::vector<double>& x,
                                 const std::vector<int32_t>& labels,
                                 const std::vector<float>& targets = {}) {
    const auto rows = static_cast<int64_t>(labels.size());
    const Shape shape{rows, static_cast<int64_t>(x.size()) / rows};
    Graph graph;
    const Tensor logits = parameter(graph, shape, Initialiser::constant(0), "x");
    const Tensor given = targets.empty() ? input(graph, {rows}, 1, DType::i32, "labels")
                                         : input(graph, shape, 1, DType::f32, "targets");
    graph.set_output("loss", loss(logits, given).value);
    differentiate(graph, graph.output("loss"));
    GraphRun run(graph, device());
    run.set("x", x);
    targets.empty() ? run.feed(1, labels) : run.feed(1, targets);
    run.run();
    std::vector<double> all = run.gradient("x");
    all.insert(all.begin(), run.scalar("loss"));
    return all;
  }
};

TEST_P(LossTest, LabelsAreOneHotTargets) {
  const std::vector<double> x{0.5, -1, 2, 1, 0, -3};
  for (const LossOp loss : {sigmoid_cross_entropy, mean_squared_error}) {
    EXPECT_EQ(run(loss, x, {2, 0}), run(loss, x, {2, 0}, {0, 0, 1, 1, 0, 0}));
  }
}

TEST_P(LossTest, OneColumnStandsForClassOneOfTwo) {
  const std::vector<double> x{0.5, -1, 2};
  for (const LossOp loss : {sigmoid_cross_entropy, mean_squared_error}) {
    EXPECT_EQ(run(loss, x, {1, 0, 0}), run(loss, x, {1, 0, 0}, {1, 0, 0}));
  }
}

/// By hand: −log σ(x) where the label is 1, −log(1 − σ(x)) where it is 0.
TEST_P(LossTest, SigmoidOfOneLogitIsTheLikelihoodOfTheLabel) {
  const std::vector<double> got = run(sigmoid_cross_entropy, {0.5, -1}, {1, 1});
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  EXPECT_NEAR(got[0], -(std::log(sigmoid(0.5)) + std::log(sigmoid(-1))) / 2, 1e-6);
  EXPECT_NEAR(got[1], (sigmoid(0.5) - 1) / 2, 1e-6);
  EXPECT_NEAR(got[2], (sigmoid(-1) - 1) / 2, 1e-6);
}

TEST_P(LossTest, BinaryAccuracyCountsLogitsOnTheLabelsSide) {
  Graph graph;
  const Tensor x = parameter(graph, {5, 1}, Initialiser::constant(0), "x");
  const Tensor labels = input(graph, {5}, 1, DType::i32, "labels");
  graph.set_output("right", binary_accuracy(x, labels).value);
  GraphRun run(graph, device());
  run.set("x", std::vector<double>{2, -2, 0, 0, NAN});
  run.feed(1, std::vector<int32_t>{1, 1, 1, 0, 0});
  run.run();
  EXPECT_NEAR(run.scalar("right"), 2.0 / 5, 1e-7);
}

INSTANTIATE_TEST_SUITE_P(Devices, LossTest, ::testing::Values("ref", "cpu"),
                         [](const auto& info) { return std::string(info.param); });

TEST(LossShapes, TargetsAreNumbersOrLabels) {
  Graph graph;
  const Tensor x = input(graph, {4, 10}), images = input(graph, {4, 2, 3, 3});
  const auto labels = [&](int64_t n) { return input(graph, {n}, 1, DType::i32, "labels"); };
  EXPECT_EQ(error_of([&] { sigmoid_cross_entropy(x, labels(5)); }),
            "layer sigmoid_cross_entropy: labels must be i32 [4], one for each row of [4, 10], not "
            "i32 [5]");
  EXPECT_EQ(error_of([&] { mean_squared_error(images, labels(4)); }),
            "layer mean_squared_error: x must be [N, classes] where the targets are labels, not "
            "[4, 2, 3, 3]");
  EXPECT_EQ(error_of([&] { binary_accuracy(x, labels(4)); }),
            "layer binary_accuracy: logits must be [N, 1], not [4, 10]");
  EXPECT_EQ(sigmoid_cross_entropy(x, labels(4)).shape(), Shape{});
  EXPECT_EQ(mean_squared_error(x, labels(4)).shape(), Shape{});
}

}  // namespace
}  // namespace crossbow::testing
