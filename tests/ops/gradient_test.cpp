// Every gradient rule against central finite differences of the reference device in double.
#include <algorithm>
#include <set>

#include "kernels/kernel.h"
#include "support/graph_testing.h"

namespace crossbow::testing {
namespace {

constexpr double kEpsilon = 1e-6, kAbsolute = 1e-5, kRelative = 1e-3;

class GradientTest : public ::testing::TestWithParam<const Op*> {};

/// Compares in units of a sum over the result's elements, lest the mean hide errors below
/// kAbsolute.
void check_case(const Op& op, const Case& c) {
  GraphRun joint(joint_graph(op, c)), forward(forward_graph(c));
  joint.run();
  const Graph& graph = joint.graph();
  const double scale = static_cast<double>(graph.type(graph.output("y")).shape.elements());
  for (const std::string& name : joint.parameter_names()) {
    const std::vector<double> gradient = joint.gradient(name), start = forward.get(name);
    for (size_t i = 0; i < start.size(); ++i) {
      const auto loss_at = [&](double x) {
        std::vector<double> moved = start;
        moved[i] = x;
        forward.set(name, moved);
        forward.run();
        return forward.scalar("loss");
      };
      const double difference =
          (loss_at(start[i] + kEpsilon) - loss_at(start[i] - kEpsilon)) / (2 * kEpsilon);
      ASSERT_NEAR(scale * gradient[i], scale * difference,
                  kAbsolute + kRelative * std::abs(scale * difference))
          << "element " << i << " of " << name;
    }
    forward.set(name, start);
  }
}

TEST_P(GradientTest, MatchesFiniteDifferences) {
  for (const Case& c : GetParam()->cases()) {
    SCOPED_TRACE(c.name);
    if (GetParam()->gradient && c.differentiable && c.small) check_case(*GetParam(), c);
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, GradientTest, ::testing::ValuesIn(ops_with_cases()), op_name);

TEST(OpCases, EveryDifferentiableOpHasASmallOne) {
  for (const Op* op : all_ops()) {
    if (!op->gradient) continue;
    ASSERT_TRUE(op->cases) << op->name;
    const std::vector<Case> cases = op->cases();
    EXPECT_TRUE(std::any_of(cases.begin(), cases.end(), [](const Case& c) {
      return c.small && c.differentiable;
    })) << op->name;
  }
}

/// Gradient ops have no cases of their own: they are covered by those of the ops they belong to.
TEST(OpCases, ReachEveryOp) {
  std::set<std::string_view> reached;
  for (const Op* op : ops_with_cases()) {
    for (const Case& c : op->cases()) {
      const Graph graph = joint_graph(*op, c);
      for (const Node& node : graph.nodes()) reached.insert(node.op->name);
    }
  }
  for (const Op* op : all_ops()) EXPECT_TRUE(reached.count(op->name)) << op->name;
}

/// Parameters and states are memory; every other op is computed by a kernel.
TEST(OpCases, EveryOpRunsOnTheReferenceDevice) {
  for (const Op* op : all_ops()) {
    const bool is_memory = op->name == "parameter" || op->name == "state";
    EXPECT_EQ(supports("ref", op->name), !is_memory) << op->name;
  }
}

}  // namespace
}  // namespace crossbow::testing
