// Work that is large enough for a team is shared among its threads. ThreadSanitizer looks at it
// here: most other tests' nets are so small that one thread computes them.
#include "kernels/cpu/team.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <array>
#include <vector>

#include "core/rng.h"
#include "device/buffer.h"
#include "device/sgd.h"
#include "device/vector_math.h"
#include "models/layers.h"
#include "ops/activation.h"
#include "ops/dropout.h"
#include "ops/elementwise.h"
#include "ops/gelu.h"
#include "ops/shape_ops.h"
#include "ops/softmax.h"
#include "passes/passes.h"
#include "support/graph_testing.h"
#include "support/model_testing.h"

namespace crossbow::testing {
namespace {

TEST(Team, RangesCoverEverythingOnce) {
  for (int64_t n : {0, 1, 63, 64, 100, 8192, 20000, 50001}) {
    for (int threads : {1, 2, 3, 7}) {
      std::vector<int> visits(n);
      parallel_ranges(threads, n, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) ++visits[i];
      });
      EXPECT_EQ(visits, std::vector<int>(n, 1));
    }
  }
}

/// With the vector math of a thread whose team has that many.
struct Optimised {
  static constexpr int64_t kSize = 50001;

  explicit Optimised(int threads) {
    omp_set_num_threads(threads);
    Rng rng(1, Purpose::synthetic);
    for (const Buffer* b : {&weights, &gradient, &momentum, &central}) {
      for (int64_t i = 0; i < kSize; ++i) b->as<float>()[i] = static_cast<float>(rng.gaussian());
    }
    const VectorMath& math = vector_math("cpu", DType::f32);
    math.squared_norm(gradient.data(), kSize, &norm);
    math.update(
        kSgd, make_sgd({.momentum = 0.9}).at(0.1, 0.1),
        {weights.data(), gradient.data(), {momentum.data()}, central.data(), weights.data()},
        kSize);
    math.combine(std::array{0.3, 0.7}, std::array<const void*, 2>{weights.data(), central.data()},
                 central.data(), kSize);
  }

  const Buffer weights{kSize * sizeof(float)}, gradient{kSize * sizeof(float)},
      momentum{kSize * sizeof(float)}, central{kSize * sizeof(float)};
  double norm = 0;
};

TEST(Team, VectorMathHasTheBitsOfOneThread) {
  const Optimised alone(1), team(2);
  EXPECT_EQ(team.norm, alone.norm);
  EXPECT_TRUE(same_bytes(team.weights, alone.weights));
  EXPECT_TRUE(same_bytes(team.momentum, alone.momentum));
  EXPECT_TRUE(same_bytes(team.central, alone.central));
}

void expect_as_reference(const Graph& graph) {
  const Graph whole = with_gradients(graph);
  GraphRun expected(whole), team(whole, cpu(DType::f32, 2));
  expected.run();
  team.run();
  EXPECT_LT(relative_error(team.values("loss"), expected.values("loss")), 1e-4);
  EXPECT_LT(relative_error(team.gradients(), expected.gradients()), 1e-3);
}

/// Layers of at least 16,384 values, of which each of two threads has a share.
TEST(Team, ANetIsAsOnTheReference) {
  const auto net = [](Tensor images) {
    const Conv2d conv{.filters = 8, .padding = 1, .bias = false};
    const Tensor x = relu(batch_norm(conv2d(images, conv)));
    const Tensor y = multiply(gelu(dropout(x, 0.3f)), sigmoid(x));
    const Tensor both = avg_pool(concat({x, add(x, y)}), 2);
    return dense(max_pool(both, 2), Dense{.outputs = 10});
  };
  const ModelSpec spec{.image = {3, 32, 32}, .batch = 4};
  expect_as_reference(classifier("net", net, spec));
  expect_as_reference(fuse(classifier("net", net, spec)));
}

/// Of fewer blocks of outputs than there are threads, which share the rows then.
TEST(Team, DenseLayersOf64OutputsAreAsOnTheReference) {
  const Case rows{"rows", [](CaseBuilder& b) {
                    return relu(dense(b.input({13, 300}), Dense{.outputs = 64}));
                  }};
  expect_as_reference(forward_graph(rows));
}

TEST(Team, SoftmaxOfManyRowsIsAsOnTheReference) {
  const Case rows{"rows", [](CaseBuilder& b) {
                    return softmax(dense(b.input({2048, 3}), Dense{.outputs = 10}));
                  }};
  expect_as_reference(forward_graph(rows));
}

}  // namespace
}  // namespace crossbow::testing
