// What cuDNN has for the convolutions of our nets on GPUs that are not there.
#include "kernels/cuda/convolution_plans.h"

#include <gtest/gtest.h>

#include <set>

#include "cuda/described_gpus.h"
#include "kernels/kernel.h"
#include "models/model.h"
#include "plan/compiled_model.h"
#include "support/error_text.h"
#include "support/graph_testing.h"
#include "support/model_testing.h"

namespace crossbow::cuda {
namespace {

class ConvolutionPlans : public testing::OnDescribedGpus {
 protected:
  void SetUp() override {
    OnDescribedGpus::SetUp();
    if (!IsSkipped()) gpu_.emplace(gpu_properties(GetParam().json));
  }

  std::optional<CudnnObject> gpu_;
};

/// Adds those of the graph that `known` does not have.
void add_convolutions(const Graph& graph, DType dtype, std::set<std::string>& known,
                      std::vector<Convolution>& all) {
  for (const Node& node : graph.nodes()) {
    const std::string_view op = node.op->name;
    if (!op.starts_with("conv2d") && !op.starts_with("dense")) continue;
    const Convolution c = Convolution::of(graph, node, dtype);
    if (known.insert(c.key()).second) all.push_back(c);
  }
}

/// Of every model's training step, each once.
std::vector<Convolution> convolutions(int64_t batch, DType dtype) {
  std::vector<Convolution> all;
  std::set<std::string> known;
  for (const Model* model : testing::image_models()) {
    const ModelSpec spec = model->default_spec(batch);
    add_convolutions(training_graph(build_model(model->name, spec), batch), dtype, known, all);
  }
  return all;
}

TEST_P(ConvolutionPlans, AreThereForEveryModel) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const int64_t batch : {2, 16}) {
      const std::vector<Convolution> all = convolutions(batch, dtype);
      EXPECT_GT(all.size(), 20u);
      for (const Convolution& c : all) {
        const std::vector<ConvolutionPlan> plans = convolution_plans(c, *gpu_);
        EXPECT_FALSE(plans.empty()) << c.key();
        std::set<std::string> names;
        for (const ConvolutionPlan& plan : plans) {
          EXPECT_TRUE(names.insert(plan.name).second) << plan.name;
          EXPECT_LE(plan.workspace_bytes, size_t{1} << 30) << c.key() << ": " << plan.name;
        }
      }
    }
  }
}

/// Odd sizes, strides, dilations, groups, unequal padding.
/// Which tensor cores compute, unless cuDNN has no good opinion of that.
TEST_P(ConvolutionPlans, AreOthersInTf32) {
  const std::vector<Convolution> all = convolutions(16, DType::f32);
  size_t others = 0;
  for (Convolution c : all) {
    const auto names = [&](bool tf32) {
      c.tf32 = tf32;
      std::set<std::string> all;
      for (const ConvolutionPlan& plan : convolution_plans(c, *gpu_)) all.insert(plan.name);
      return all;
    };
    const std::set<std::string> f32 = names(false), tf32 = names(true);
    others += !std::ranges::includes(f32, tf32);
  }
  EXPECT_GT(others, all.size() / 2);
}

TEST_P(ConvolutionPlans, AreThereForEveryCaseOfTheOps) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    std::vector<Convolution> all;
    std::set<std::string> known;
    for (const char* name : {"conv2d", "dense"}) {
      const Op& op = find_op(name);
      for (const Case& c : op.cases()) {
        add_convolutions(testing::joint_graph(op, c), dtype, known, all);
      }
    }
    EXPECT_GT(all.size(), 20u);
    for (const Convolution& c : all) EXPECT_FALSE(convolution_plans(c, *gpu_).empty()) << c.key();
  }
}

TEST_P(ConvolutionPlans, AreTheSameWhenAskedAgain) {
  const Convolution c = convolutions(16, DType::f32).front();
  const auto first = convolution_plans(c, *gpu_), again = convolution_plans(c, *gpu_);
  ASSERT_EQ(first.size(), again.size());
  for (size_t i = 0; i < first.size(); ++i) {
    EXPECT_EQ(first[i].name, again[i].name);
    EXPECT_EQ(first[i].workspace_bytes, again[i].workspace_bytes);
  }
}

TEST_P(ConvolutionPlans, AreNotChosenForIncompleteProperties) {
  const std::string error =
      testing::error_of([] { gpu_properties(std::string_view(R"({"deviceVer":900})")); });
  EXPECT_NE(error.find("cuDNN says"), error.npos) << error;
}

/// Nothing else is missing for nets to run.
TEST(CudaKernels, AreThereForEveryOp) {
  for (const Op* op : all_ops()) {
    if (op->name == "fault") continue;  // the tests'
    EXPECT_EQ(supports("cuda", op->name), supports("cpu", op->name)) << op->name;
  }
}

INSTANTIATE_TEST_SUITE_P(Described, ConvolutionPlans,
                         ::testing::ValuesIn(testing::described_gpus()), testing::gpu_name);

}  // namespace
}  // namespace crossbow::cuda
