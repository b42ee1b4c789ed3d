// Programs of whole nets for GPUs that are not there: kernels, layouts and memory.
#include <algorithm>

#include "cuda/described_gpus.h"
#include "models/model.h"
#include "plan/compiled_model.h"
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
      // Images come row-major, and dense layers read what images there are as rows. In bf16 weights
      // and their gradients are converted too.
      const auto weights =
          std::ranges::count_if(compiled.parameters()->parameters,
                                [](const auto& p) { return p.layout.shape.rank() > 1; });
      EXPECT_LE(reorders(program), 3 + (precision == DType::bf16 ? 2 * weights : 0));
      EXPECT_GT(compiled.evaluation(64)->arena_bytes(), 0u);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Described, CudaNets, ::testing::ValuesIn(described_gpus()), gpu_name);

}  // namespace
}  // namespace crossbow::testing
