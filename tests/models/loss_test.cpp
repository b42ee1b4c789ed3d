#include "models/loss.h"

#include "models/layers.h"
#include "models/model.h"
#include "support/error_text.h"
#include "support/graph_testing.h"

namespace crossbow::testing {
namespace {

/// A net whose outputs are all 0.
Graph zeros(const Loss& loss, int64_t classes, int64_t outputs) {
  const auto net = [=](Tensor x) {
    return dense(x, Dense{.outputs = outputs, .weight_init = Initialiser::constant(0)});
  };
  return classifier("net", net, {.image = {5}, .classes = classes, .batch = 4, .loss = loss});
}

double loss_of(const Graph& graph) {
  GraphRun run(graph);
  run.run();
  return run.scalar("loss");
}

TEST(Loss, OfZerosIsWhatAGraphSays) {
  for (const Loss& loss :
       {Loss(CrossEntropyLoss{}), Loss(CrossEntropyLoss{.label_smoothing = 0.1f}),
        Loss(BCEWithLogitsLoss{}), Loss(MSELoss{})}) {
    EXPECT_NEAR(loss_of(zeros(loss, 7, 7)), loss_of_zeros(loss, 7), 1e-7) << loss.index();
  }
  EXPECT_NEAR(loss_of(zeros(BCEWithLogitsLoss{}, 2, 1)), std::log(2.0), 1e-7);
}

/// The least loss of one output for all: below and above it the loss is higher.
TEST(Loss, OfAGuessIsTheLeastOfAConstant) {
  const auto sigmoid = [](double x) {
    return (std::log1p(std::exp(-x)) + 3 * std::log1p(std::exp(x))) / 4;
  };
  const double guess = loss_of_a_guess(BCEWithLogitsLoss{}, 4), x = std::log(1.0 / 3);
  EXPECT_NEAR(sigmoid(x), guess, 1e-12);
  EXPECT_GT(std::min(sigmoid(x - 0.1), sigmoid(x + 0.1)), guess);
  EXPECT_NEAR(loss_of_a_guess(MSELoss{}, 4), (0.75 * 0.75 + 3 * 0.25 * 0.25) / 4, 1e-12);
  EXPECT_NEAR(loss_of_a_guess(CrossEntropyLoss{.label_smoothing = 0.1f}, 4), std::log(4), 1e-12);
}

TEST(Loss, OneLogitIsEnoughForTwoClassesOfASigmoid) {
  const Graph graph = zeros(BCEWithLogitsLoss{}, 2, 1);
  EXPECT_EQ(graph.find("binary_accuracy").size(), 1u);
  const std::string error = error_of([] { zeros(CrossEntropyLoss{}, 2, 1); });
  EXPECT_NE(error.find("ends in shape [4, 1], but a batch of 4 in 2 classes needs [4, 2]"),
            error.npos)
      << error;
  EXPECT_NE(error_of([] { zeros(BCEWithLogitsLoss{}, 3, 1); }).find("needs [4, 3]"), error.npos);
}

}  // namespace
}  // namespace crossbow::testing
