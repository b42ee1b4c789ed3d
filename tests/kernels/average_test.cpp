// How exact an average over a large window is.
#include "ops/pool.h"
#include "support/graph_testing.h"

namespace crossbow::testing {
namespace {

/// PyTorch's adaptive_avg_pool2d is 0.5e-7 to 0.7e-7 off for numbers in [0, 1), relatively, and a
/// chain of 221 additions 1.6e-7 to 2.3e-7.
TEST(AveragePool, OfALargeWindowIsAsExactAsPyTorchs) {
  for (const int64_t channels : {3, 16, 64}) {
    const Case c{"13x17", [=](CaseBuilder& b) {
                   return global_avg_pool(b.input({8, channels, 13, 17}, 0, 1));
                 }};
    const Graph graph = forward_graph(c);
    GraphRun exact(graph), computed(graph, cpu());
    exact.run();
    computed.run();
    EXPECT_LT(relative_error(computed.values("y"), exact.values("y")), 0.8e-7) << channels;
  }
}

}  // namespace
}  // namespace crossbow::testing
