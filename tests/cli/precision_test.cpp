// What users meet who ask for bf16 on a processor without it, which oneDNN plays when told to.
#include <gtest/gtest.h>

#include <cstdlib>

#include "support/paths.h"
#include "train/tiny_run.h"

namespace crossbow {
namespace {

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(Precision, Bf16IsComputedInF32WithANoteWhereThereIsNone) {
  const testing::TinyData data;
  const data::TemporaryFolder work;
  const std::string environment =
      "XDG_CACHE_HOME=$PWD OMP_WAIT_POLICY=passive ONEDNN_MAX_CPU_ISA=AVX2 ";
  const std::string common = " --precision bf16 --learners 1 --threads-per-learner 1";
  for (const std::string& arguments :
       {"train --model mlp --json --epochs 1 --data " + data.spec() + common,
        "bench --model lenet --json --seconds 0.1" + common}) {
    const std::string command = "cd " + work.path().string() + " && " + environment +
                                crossbow_binary() + ' ' + arguments + " >out 2>err";
    EXPECT_EQ(std::system(command.c_str()), 0) << arguments;
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, "note: --precision bf16: this processor",
                        text_of(work.path() / "err"));
  }
}

}  // namespace
}  // namespace crossbow
