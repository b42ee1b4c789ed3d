#include "learner/learner.h"

#include "support/error_text.h"
#include "support/model_testing.h"

namespace crossbow::testing {
namespace {

std::string refusal(const LearnerSetup& setup, bool update) {
  CompileOptions options = cpu();
  if (update) options.update = setup.optimizer;
  CompiledModel model(small_model(find_model("logistic")), options);
  for (const int64_t rows : setup.batch.program_rows()) model.training(rows);
  Device& device = find_device("cpu");
  const Workspace workspace = model.make_workspace(device);
  const std::array<const Workspace*, 1> workspaces{&workspace};
  return error_of([&] { Learner(model, setup, device, workspaces); });
}

TEST(Learner, RefusesProgramsThatUpdateWhereTheWholeGradientIsNeeded) {
  LearnerSetup plain{{.rows = 4}}, clipped = plain, in_parts = plain, shared = plain;
  std::byte weight{};
  clipped.clip_norm = 1;
  in_parts.batch.splits = 2;
  shared.shared_weights = &weight;
  EXPECT_EQ(refusal(plain, true), "no error");
  EXPECT_EQ(refusal(clipped, false), "no error");
  EXPECT_EQ(refusal(clipped, true),
            "a clip norm needs the whole gradient before the update: compile the model without "
            "CompileOptions::update");
  EXPECT_EQ(refusal(in_parts, true).substr(0, 18), "a batch in parts n");
  EXPECT_EQ(refusal(shared, true).substr(0, 16), "shared weights n");
}

}  // namespace
}  // namespace crossbow::testing
