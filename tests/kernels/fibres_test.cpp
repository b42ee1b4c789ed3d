// Our GPU kernels, run by fibres, against the reference in double: every case of every op, and
// whole nets, whose convolutions and dense layers are the reference's.
#include "support/against_reference.h"

namespace crossbow::testing {
namespace {

CompileOptions on_fibres(DType precision = DType::f32) {
  CompileOptions options;
  options.device = "fibres";
  options.precision = precision;
  return options;
}

class GpuKernels : public ::testing::TestWithParam<const Op*> {};

TEST_P(GpuKernels, F32) {
  expect_cases_agree(*GetParam(), on_fibres());
}

TEST_P(GpuKernels, Bf16) {
  expect_cases_agree(*GetParam(), on_fibres(DType::bf16));
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

TEST_P(GpuNets, AgreeWithTheReference) {
  expect_net_agrees(*GetParam(), on_fibres());
}

INSTANTIATE_TEST_SUITE_P(Models, GpuNets, ::testing::ValuesIn(all_models()), model_name);

}  // namespace
}  // namespace crossbow::testing
