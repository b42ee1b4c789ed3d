// Programs of whole nets for GPUs that are not there: kernels, layouts and memory.
#include <algorithm>

#include "cuda/described_gpus.h"
#include "models/model.h"
#include "plan/compiled_model.h"
#include "support/graph_testing.h"
#include "support/model_testing.h"

namespace crossbow::testing {
namespace {

class CudaNets : public OnDescribedGpus {};

int64_t reorders(const Program& program) {
  return std::ranges::count(program.kernel_infos(), "reorder", &Program::KernelInfo::kind);
}

TEST_P(CudaNets, EveryModelCompiles) {
  for (const Model* model : testing::image_models()) {
    SCOPED_TRACE(model->name);
    for (const DType precision : {DType::f32, DType::bf16}) {
      const ModelSpec spec = model->default_spec(16);
      CompileOptions options;
      options.device = GetParam().name;
      options.precision = precision;
      CompiledModel compiled(build_model(model->name, spec), options);
      const Program& program = *compiled.training(16);
      EXPECT_LT(program.arena_bytes(), program.arena_bytes_without_reuse());
      // Dense layers read what images there are as rows. In bf16 all weights are converted by one
      // kernel, and all their gradients.
      EXPECT_LE(reorders(program), precision == DType::bf16 ? 4 : 2);
      EXPECT_GT(compiled.evaluation(64)->arena_bytes(), 0u);
    }
  }
}

/// Sees what there is to choose from, and takes the first.
class Candidates : public AlgorithmChooser {
 public:
  size_t choose(const std::string&, std::span<const std::string> candidates,
                const std::function<double(size_t)>&) override {
    has_ours |= std::ranges::find(candidates, "loops") != candidates.end();
    return 0;
  }
  bool has_ours = false;
};

/// Ours knows no groups.
TEST_P(CudaNets, OursIsOfferedForPlainConvolutions) {
  const Op& conv2d = find_op("conv2d");
  int offered = 0;
  for (const Case& c : conv2d.cases()) {
    SCOPED_TRACE(c.name);
    Candidates candidates;
    CompileOptions options;
    options.device = GetParam().name;
    options.chooser = &candidates;
    Program::compile(joint_graph(conv2d, c), options);
    const std::string_view name = c.name;
    const bool grouped = name.find("groups") != name.npos || name.find("depthwise") != name.npos;
    EXPECT_FALSE(grouped && candidates.has_ours);
    offered += candidates.has_ours;
  }
  EXPECT_GT(offered, 4);
}

INSTANTIATE_TEST_SUITE_P(Described, CudaNets, ::testing::ValuesIn(described_gpus()), gpu_name);

}  // namespace
}  // namespace crossbow::testing
