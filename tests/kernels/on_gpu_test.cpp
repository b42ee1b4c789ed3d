// A GPU's kernels against the reference in double. Where there is no GPU, fibres_test has done the
// same by fibres, and four ops try these tests.
#include "support/against_reference.h"
#include "support/gpu.h"

namespace crossbow::testing {
namespace {

CompileOptions on_gpu(DType precision = DType::f32) {
  return on_device(gpu(), precision);
}

class OnGpuKernels : public ::testing::TestWithParam<const Op*> {};

std::vector<const Op*> ops_of_gpus() {
  std::vector<const Op*> ops = ops_with_cases();
  std::erase_if(ops,
                [](const Op* op) { return !supports("ref", op->name) || op->name == "fault"; });
  if (!has_gpu()) {
    const std::set<std::string_view> tried{"batch_norm", "dropout", "max_pool", "sparse_dense"};
    std::erase_if(ops, [&](const Op* op) { return !tried.contains(op->name); });
  }
  return ops;
}

TEST_P(OnGpuKernels, F32) {
  expect_cases_agree(*GetParam(), on_gpu());
}

TEST_P(OnGpuKernels, Bf16) {
  expect_cases_agree(*GetParam(), on_gpu(DType::bf16));
}

TEST_P(OnGpuKernels, Tf32) {
  CompileOptions options = on_gpu();
  options.tf32 = true;
  expect_cases_agree(*GetParam(), options);
}

TEST_P(OnGpuKernels, SameBitsAgain) {
  for (int times = 0; times < 3; ++times) expect_same_bits_again(*GetParam(), on_gpu());
}

INSTANTIATE_TEST_SUITE_P(Ops, OnGpuKernels, ::testing::ValuesIn(ops_of_gpus()), op_name);

/// Takes the i-th candidate, or the last one.
class TheIth : public AlgorithmChooser {
 public:
  explicit TheIth(size_t i) : i_(i) {}
  size_t choose(const std::string&, std::span<const std::string> candidates,
                const std::function<double(size_t)>&) override {
    return std::min(i_, candidates.size() - 1);
  }

 private:
  const size_t i_;
};

/// By each plan of the libraries, with what cuBLASLt computes of a layer's bias and activation.
TEST(OnGpuKernels, AreRightByEveryPlan) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  for (size_t i = 0; i < 29; ++i) {
    SCOPED_TRACE(i);
    TheIth chooser(i);
    for (const DType precision : {DType::f32, DType::bf16}) {
      CompileOptions options = on_gpu(precision);
      options.chooser = &chooser;
      expect_cases_agree(find_op("dense"), options);
      expect_same_bits_again(find_op("dense"), options);
      if (precision == DType::f32) expect_net_agrees(find_model("lenet"), options);
    }
  }
}

/// Takes a kernel of ours where there is one.
class OursIfAny : public AlgorithmChooser {
 public:
  size_t choose(const std::string&, std::span<const std::string> candidates,
                const std::function<double(size_t)>&) override {
    const auto ours = std::ranges::find_if(
        candidates, [](const auto& name) { return name == "loops" || name == "few rows"; });
    return ours == candidates.end() ? 0 : static_cast<size_t>(ours - candidates.begin());
  }
};

TEST(OnGpuKernels, AreRightByOurs) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU: GpuKernels does this by fibres";
  OursIfAny ours;
  for (const DType precision : {DType::f32, DType::bf16}) {
    CompileOptions options = on_gpu(precision);
    options.chooser = &ours;
    expect_cases_agree(find_op("conv2d"), options);
    expect_cases_agree(find_op("dense"), options);
    expect_same_bits_again(find_op("dense"), options);
    if (precision == DType::f32) expect_net_agrees(find_model("mlp"), options);
  }
}

TEST(OnGpuKernels, AddUpTheGradientsOfANetsWeights) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU: GpuKernels does this by fibres";
  OursIfAny ours;
  CompileOptions options = on_gpu();
  options.chooser = &ours;
  expect_net_agrees(find_model("resnet-20"), options);
}

class OnGpuNets : public ::testing::TestWithParam<const Model*> {};

TEST_P(OnGpuNets, AgreeWithTheReference) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU: GpuNets does this by fibres";
  expect_net_agrees(*GetParam(), on_gpu());
}

/// Weights are converted at the beginning and gradients at the end, so memory is long in use.
TEST(OnGpuNets, ReusedMemoryChangesNoBits) {
  CompileOptions options = on_gpu(DType::bf16);
  const Graph net = fused_net(find_model("resnet-20"));
  const std::vector<double> reused = run_of(net, options).gradients();
  options.reuse_memory = false;
  EXPECT_EQ(reused, run_of(net, options).gradients());
}

INSTANTIATE_TEST_SUITE_P(Models, OnGpuNets, ::testing::ValuesIn(image_models()), model_name);

}  // namespace
}  // namespace crossbow::testing
