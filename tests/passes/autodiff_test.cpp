#include "passes/autodiff.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "graph/op.h"
#include "graph/source.h"
#include "ops/elementwise.h"
#include "ops/loss.h"

namespace crossbow {
namespace {

Tensor weight(Graph& g, const char* name) {
  return parameter(g, {2, 3}, Initialiser::constant(1), name);
}

TEST(Autodiff, NamesOneGradientForEachParameterThatTheLossDependsOn) {
  Graph g;
  const Tensor a = weight(g, "a"), b = weight(g, "b"), unused = weight(g, "unused");
  const Tensor loss = mean_squared_error(multiply(a, b), state(g, {2, 3}, 0, "target"));
  differentiate(g, loss.value);
  EXPECT_EQ(g.type(g.output("gradient:a")).shape, a.shape());
  EXPECT_EQ(g.type(g.output("gradient:b")).shape, b.shape());
  EXPECT_EQ(g.outputs().count("gradient:unused"), 0u);
  EXPECT_EQ(unused.shape(), a.shape());
}

TEST(Autodiff, SumsTheGradientsOfAllUses) {
  Graph g;
  const Tensor a = weight(g, "a");
  const Tensor loss = mean_squared_error(add(multiply(a, a), a), state(g, {2, 3}, 0, "target"));
  differentiate(g, loss.value);
  EXPECT_EQ(g.node(g.output("gradient:a")).op->name, "add");
}

TEST(Autodiff, ComputesNothingThatNoParameterNeeds) {
  Graph g;
  const Tensor x = input(g, {2, 3}), a = weight(g, "a");
  const size_t forward = g.nodes().size();
  const Tensor loss = mean_squared_error(multiply(x, a), state(g, {2, 3}, 0, "target"));
  differentiate(g, loss.value);
  // The constant 1, the loss's gradient, and the product's gradient for `a` alone.
  EXPECT_EQ(g.nodes().size(), forward + 3 + 3);
}

TEST(Autodiff, RefusesALossThatIsNoScalar) {
  Graph g;
  const Tensor a = weight(g, "a");
  EXPECT_THROW(differentiate(g, a.value), Error);
}

TEST(Autodiff, RefusesToDropAGradientThroughASecondResult) {
  Graph g;
  const Tensor labels = input(g, {2}, 1, DType::i32, "labels");
  const Tensor probabilities = softmax_cross_entropy(weight(g, "a"), labels).output(1);
  const Tensor loss = mean_squared_error(probabilities, state(g, {2, 3}, 0, "target"));
  EXPECT_THROW(differentiate(g, loss.value), Error);
}

TEST(Autodiff, NamesTheOpThatHasNoGradient) {
  Graph g;
  const Tensor labels = input(g, {2}, 1, DType::i32, "labels");
  const Tensor score = accuracy(weight(g, "a"), labels);
  try {
    differentiate(g, score.value);
    FAIL() << "differentiated an accuracy";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("accuracy has no gradient"), std::string::npos)
        << e.what();
  }
}

}  // namespace
}  // namespace crossbow
