#include "ops/dropout.h"

#include <gtest/gtest.h>

#include <set>

#include "graph/source.h"
#include "support/error_text.h"

namespace crossbow::testing {
namespace {

TEST(Dropout, NumbersTheLayersOfANet) {
  Graph graph;
  Tensor x = input(graph, {4, 6});
  for (uint32_t layer = 0; layer < 3; ++layer) {
    x = dropout(x, 0.5f);
    EXPECT_EQ(graph.node(x.value).attrs<DropoutAttributes>().layer, layer);
  }
  EXPECT_EQ(x.output(1).type(), (TensorType{{4, 6}, DType::u8}));
}

TEST(Dropout, Errors) {
  Graph graph;
  const Tensor x = input(graph, {4, 6});
  EXPECT_EQ(error_of([&] { dropout(x, 1, "drop"); }),
            "layer drop: dropout's probability 1 must be in [0, 1)");
  EXPECT_EQ(error_of([&] { dropout(x, -0.5f, "drop"); }),
            "layer drop: dropout's probability -0.5 must be in [0, 1)");
}

TEST(DropoutRandom, EveryArgumentCounts) {
  const DropoutKey key{.seed = 7, .epoch = 1, .layer = 2};
  const auto first = dropout_random(key, 10, 20);
  EXPECT_EQ(first, dropout_random(key, 10, 20));
  const std::set<std::array<uint32_t, 4>> distinct = {
      first,
      dropout_random({8, 1, 2}, 10, 20),
      dropout_random({7 + (uint64_t{1} << 32), 1, 2}, 10, 20),
      dropout_random({7, 2, 2}, 10, 20),
      dropout_random({7, 1, 3}, 10, 20),
      dropout_random(key, 11, 20),
      dropout_random(key, 10 + (uint64_t{1} << 32), 20),
      dropout_random(key, 10, 21),
  };
  EXPECT_EQ(distinct.size(), 8u);
}

TEST(DropoutRandom, IsUniform) {
  const int quads = 25000;
  double below = 0;
  for (uint32_t quad = 0; quad < quads; ++quad) {
    for (const uint32_t r : dropout_random({1, 0, 0}, 0, quad)) below += r < 0x40000000u;
  }
  EXPECT_NEAR(below / (4 * quads), 0.25, 0.006);  // over four standard deviations
}

}  // namespace
}  // namespace crossbow::testing
