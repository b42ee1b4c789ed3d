// A run that version 5 of the checkpoint's format has left (tests/train/version5).
#include "cli/program.h"
#include "support/paths.h"
#include "train/checkpoints.h"

namespace crossbow {
namespace {

namespace fs = std::filesystem;
using testing::load;

class OlderRun : public testing::ProgramTest {
 protected:
  OlderRun() {
    const fs::path left = fs::path(test_data_folder()) / "../train/version5";
    for (const char* rows : {"rows", "rows.t"}) fs::copy_file(left / rows, path(rows));
    fs::create_directory(path("run"));
    fs::copy_file(left / "checkpoint", path("run/checkpoint"));
  }
};

/// By the slow reference, which has the same bits everywhere.
TEST_F(OlderRun, IsGoneOnWithBitForBit) {
  ASSERT_EQ(
      crossbow("train --model logistic --data libsvm:rows --device ref --learners 2 --batch 4 "
               "--lr 0.05 --momentum 0.9 --lr-schedule fixed --deterministic --epochs 3 "
               "--out whole")
          .code,
      0);
  const Outcome resumed = crossbow("train --resume run --epochs 3");
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  const Checkpoint whole = load(path("whole")), run = load(path("run"));
  EXPECT_EQ(run.position.epoch, 3);
  EXPECT_EQ(run.history.size(), 3u);
  testing::expect_same_bits(whole, run);
}

TEST_F(OlderRun, IsEvaluatedAndExported) {
  const Outcome evaluated = crossbow("eval run");
  EXPECT_EQ(evaluated.code, 0) << evaluated.err;
  testing::expect_says(evaluated.out, "0.72");  // the loss of its last epoch
  const Outcome exported = crossbow("export run weights.safetensors");
  EXPECT_EQ(exported.code, 0) << exported.err;
  testing::expect_says(exported.out, "2 tensors of 21 values");
}

}  // namespace
}  // namespace crossbow
