// Our GPU kernels, run by fibres, against the reference in double: every case of every op, and
// whole nets, whose convolutions and dense layers are the reference's.
#include "passes/passes.h"
#include "support/graph_comparison.h"
#include "support/model_testing.h"

namespace crossbow::testing {
namespace {

CompileOptions on_fibres(DType precision = DType::f32) {
  CompileOptions options;
  options.device = "fibres";
  options.precision = precision;
  return options;
}

class GpuKernels : public ::testing::TestWithParam<const Op*> {
 protected:
  static void check(DType precision, double tolerance) {
    const Values values = precision == DType::bf16 ? Values::bf16 : Values::f32;
    for (const Case& c : GetParam()->cases()) {
      SCOPED_TRACE(c.name);
      const Graph graph = joint_graph(*GetParam(), c);
      GraphRun expected(graph, reference(), values), actual(graph, on_fibres(precision), values);
      expected.run();
      actual.run();
      expect_same(actual, expected, tolerance);
    }
  }
};

TEST_P(GpuKernels, F32) {
  check(DType::f32, 1e-5);
}

TEST_P(GpuKernels, Bf16) {
  check(DType::bf16, 2e-2);
}

/// Fibres run in another order each time.
TEST_P(GpuKernels, SameBitsInAnyOrder) {
  for (const Case& c : GetParam()->cases()) {
    SCOPED_TRACE(c.name);
    const Graph graph = joint_graph(*GetParam(), c);
    GraphRun first(graph, on_fibres()), second(graph, on_fibres());
    first.run();
    second.run();
    EXPECT_EQ(first.values("y"), second.values("y"));
    EXPECT_TRUE(same_bytes(first.replica().gradients, second.replica().gradients));
    EXPECT_TRUE(same_bytes(first.replica().states, second.replica().states));
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, GpuKernels, ::testing::ValuesIn(ops_with_cases()), op_name);

TEST(GpuKernels, AreThereForEveryOp) {
  for (const Op* op : all_ops()) {
    EXPECT_EQ(supports("fibres", op->name), supports("ref", op->name)) << op->name;
  }
}

class GpuNets : public ::testing::TestWithParam<const Model*> {};

/// As for the CPU, a good draw of the weights among three is enough.
TEST_P(GpuNets, AgreeWithTheReference) {
  const Graph plain = with_gradients(small_model(*GetParam()));
  const Graph fused = with_gradients(fuse(small_model(*GetParam())));
  const auto run = [](const Graph& graph, const CompileOptions& options, uint64_t seed) {
    GraphRun result(graph, options, Values::f32, seed);
    result.run();
    return result;
  };
  bool good = false;
  std::string errors;
  for (uint64_t seed = 1; seed <= 3 && !good; ++seed) {
    const GraphRun expected = run(plain, reference(), seed);
    const GraphRun actual = run(fused, on_fibres(), seed);
    const GraphRun rounded = run(plain, reference(DType::f32), seed);
    EXPECT_LE(relative_error(actual.values("loss"), expected.values("loss")), 1e-4);
    const double error = relative_error(actual.gradients(), expected.gradients());
    const double rounding = relative_error(rounded.gradients(), expected.gradients());
    good = error <= std::max(1e-4, 2 * rounding);
    errors += fmt::format("error {}, rounding {}\n", error, rounding);
  }
  EXPECT_TRUE(good) << errors;
}

INSTANTIATE_TEST_SUITE_P(Models, GpuNets, ::testing::ValuesIn(all_models()), model_name);

}  // namespace
}  // namespace crossbow::testing
