// What users meet who ask for bf16 on a processor without it, which oneDNN plays when told to.
#include <nlohmann/json.hpp>

#include "cli/program.h"

namespace crossbow::testing {
namespace {

class Precision : public ProgramTest {};

TEST_F(Precision, Bf16IsComputedInF32WithANoteWhereThereIsNone) {
  const std::string common = " --precision bf16 --learners 1 --threads-per-learner 1";
  for (const std::string& arguments :
       {"train --model mlp --json --epochs 1 --data " + data_.spec() + common,
        "bench --model lenet --json --seconds 0.1" + common}) {
    const Outcome o = shell("ONEDNN_MAX_CPU_ISA=AVX2 " + crossbow_binary() + ' ' + arguments);
    EXPECT_EQ(o.code, 0) << arguments;
    expect_says(o.err, "note: --precision bf16: this processor");
    EXPECT_EQ(nlohmann::json::parse(o.out)["precision"], "f32");
    EXPECT_EQ(o.err.find("in bf16"), std::string::npos) << o.err;
  }
}

}  // namespace
}  // namespace crossbow::testing
