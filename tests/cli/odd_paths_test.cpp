// Paths that cannot be used end the command at once, with one sentence that names them.
#include <algorithm>

#include "cli/program.h"
#include "support/odd_files.h"

namespace crossbow::testing {
namespace {

namespace fs = std::filesystem;

class OddPaths : public ProgramTest {
 protected:
  /// Runs `crossbow ARGUMENTS`, which must fail; returns what it says.
  std::string failure(const std::string& arguments) {
    const Outcome o =
        end_of(start("exec " + crossbow_binary() + ' ' + arguments), std::chrono::seconds(60));
    EXPECT_TRUE(o.code == 1 || o.code == 2) << o.code << ": " << arguments;
    EXPECT_EQ(std::count(o.err.begin(), o.err.end(), '\n'), 1) << o.err;
    for (const char* raw : {"filesystem error", "[json", "basic_", "std::"}) {
      EXPECT_PRED_FORMAT2(::testing::IsNotSubstring, raw, o.err);
    }
    return o.err;
  }
  void expect_failure(const std::string& arguments, const std::string& part) {
    expect_says(failure(arguments), part);
  }

  const data::TemporaryFolder odd_;
};

TEST_F(OddPaths, AreNamed) {
  for (const auto& odd : odd_files(odd_.path())) {
    const std::string path = odd.path.string();
    expect_failure("eval " + path, path);
    expect_failure("train --resume " + path, path);
    expect_failure("train --config " + path, path);
    expect_failure("train --data mnist:" + path, path);
    if (odd.reason != "it is a folder") expect_failure(tiny("--epochs 1 --out " + path), path);
  }
}

TEST_F(OddPaths, ThatAreNoTextAreRefused) {
  const std::string name = "$(printf 'no\\377text')";
  expect_failure(tiny("--epochs 1 --out " + name), "not UTF-8");
  expect_failure("train --data mnist:" + name, "not UTF-8");
  expect_failure("train --config " + name, "No such file");
  ASSERT_EQ(crossbow(tiny("--epochs 1 --out run && mv run " + name)).code, 0);
  expect_failure("train --resume " + name, "not UTF-8");
}

TEST_F(OddPaths, InThePlaceOfARunsPlanAreNamed) {
  ASSERT_EQ(crossbow(tiny("--epochs 1 --out run")).code, 0);
  // A checkpoint that cannot be read has one before it.
  for (const auto& odd : odd_files(odd_.path())) {
    if (odd.path.filename().string().size() > 255) continue;  // no link to it can be made
    const fs::path plan = path("run/plan.json");
    fs::remove(plan);
    fs::create_symlink(odd.path, plan);
    const std::string said = failure("train --resume run --epochs 2");
    expect_says(said, "run/plan.json");
    expect_says(said, odd.reason);
  }
}

}  // namespace
}  // namespace crossbow::testing
