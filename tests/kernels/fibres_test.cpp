// Our GPU kernels, run by fibres, against the reference in double: every case of every op, and
// whole nets, whose convolutions and dense layers are the reference's.
#include "kernels/cuda/bias.h"
#include "support/against_reference.h"

namespace crossbow::testing {
namespace {

CompileOptions on_fibres(DType precision = DType::f32) {
  return on_device("fibres", precision);
}

class GpuKernels : public ::testing::TestWithParam<const Op*> {};

std::vector<const Op*> ops_of_gpus() {
  std::vector<const Op*> ops = ops_with_cases();
  std::erase_if(ops, [](const Op* op) { return !supports("fibres", op->name); });
  return ops;
}

TEST_P(GpuKernels, F32) {
  expect_cases_agree(*GetParam(), on_fibres());
}

TEST_P(GpuKernels, Bf16) {
  expect_cases_agree(*GetParam(), on_fibres(DType::bf16));
}

/// Fibres run in another order each time.
TEST_P(GpuKernels, SameBitsInAnyOrder) {
  expect_same_bits_again(*GetParam(), on_fibres());
}

INSTANTIATE_TEST_SUITE_P(Ops, GpuKernels, ::testing::ValuesIn(ops_of_gpus()), op_name);

TEST(GpuKernels, AreThereForEveryOp) {
  for (const Op* op : all_ops()) {
    const bool has = supports("ref", op->name) && !is_of_rows(*op);  // these are dense there
    EXPECT_EQ(supports("fibres", op->name), has) << op->name;
  }
}

TEST(GpuKernels, AddABiasAndSumItsGradient) {
  constexpr size_t kRows = 300, kChannels = 37;
  const BiasShape shape{DType::f32, kRows, kChannels};
  std::vector<float> y(kRows * kChannels), bias(kChannels), sums(kChannels);
  for (size_t i = 0; i < y.size(); ++i) y[i] = static_cast<float>(i % 17) - 8;
  for (size_t c = 0; c < kChannels; ++c) bias[c] = static_cast<float>(c) / 4;
  std::vector<float> expected = y, expected_sums(kChannels);
  for (size_t i = 0; i < y.size(); ++i) {
    expected[i] = std::max(expected[i] + bias[i % kChannels], 0.0f);
    expected_sums[i % kChannels] += expected[i];
  }
  std::vector<std::byte> scratch(fibres::kBias.scratch_bytes(shape));
  fibres::kBias.add(shape, Activation::relu, y.data(), bias.data())(Step());
  EXPECT_EQ(y, expected);
  fibres::kBias.sum(shape, y.data(), sums.data(), scratch.data())(Step());
  EXPECT_EQ(sums, expected_sums);
}

class GpuNets : public ::testing::TestWithParam<const Model*> {};

TEST_P(GpuNets, AgreeWithTheReference) {
  expect_net_agrees(*GetParam(), on_fibres());
}

INSTANTIATE_TEST_SUITE_P(Models, GpuNets, ::testing::ValuesIn(image_models()), model_name);

}  // namespace
}  // namespace crossbow::testing
