// Paths that cannot be used end the command at once, with one sentence that names them.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>

#include "core/file.h"
#include "support/odd_files.h"
#include "support/paths.h"
#include "train/tiny_run.h"

namespace crossbow {
namespace {

namespace fs = std::filesystem;

class OddPaths : public ::testing::Test {
 protected:
  /// Runs `crossbow ARGUMENTS`, which must fail; returns what it says.
  std::string failure(const std::string& arguments) {
    const fs::path said = work_.path() / "said";
    const std::string command = "cd " + work_.path().string() +
                                " && XDG_CACHE_HOME=$PWD timeout -s KILL 60 " + crossbow_binary() +
                                ' ' + arguments + " 2>" + said.string();
    const int status = std::system(command.c_str());
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    EXPECT_TRUE(code == 1 || code == 2) << code << ": " << arguments;
    std::string text = read_text_file(said, 1 << 20);
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
    for (const char* raw : {"filesystem error", "[json", "basic_", "std::"}) {
      EXPECT_PRED_FORMAT2(::testing::IsNotSubstring, raw, text);
    }
    return text;
  }
  void expect_failure(const std::string& arguments, const std::string& part) {
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, part, failure(arguments));
  }
  std::string tiny() const {
    return "train --model logistic --device ref --learners 1 --threads-per-learner 1 --epochs 1 "
           "--data " +
           data_.spec() + ' ';
  }

  const testing::TinyData data_;
  const data::TemporaryFolder work_, odd_;
};

TEST_F(OddPaths, AreNamed) {
  for (const auto& odd : testing::odd_files(odd_.path())) {
    const std::string path = odd.path.string();
    expect_failure("eval " + path, path);
    expect_failure("train --resume " + path, path);
    expect_failure("train --config " + path, path);
    expect_failure("train --data mnist:" + path, path);
    if (odd.reason != "it is a folder") expect_failure(tiny() + "--out " + path, path);
  }
}

TEST_F(OddPaths, ThatAreNoTextAreRefused) {
  const std::string name = "$(printf 'no\\377text')";
  expect_failure(tiny() + "--out " + name, "not UTF-8");
  expect_failure("train --data mnist:" + name, "not UTF-8");
  expect_failure("train --config " + name, "No such file");
  ASSERT_EQ(std::system(("cd " + work_.path().string() + " && XDG_CACHE_HOME=$PWD " +
                         crossbow_binary() + ' ' + tiny() + "--out run >log && mv run " + name)
                            .c_str()),
            0);
  expect_failure("train --resume " + name, "not UTF-8");
}

TEST_F(OddPaths, InThePlaceOfARunsPlanAreNamed) {
  ASSERT_EQ(std::system(("cd " + work_.path().string() + " && XDG_CACHE_HOME=$PWD " +
                         crossbow_binary() + ' ' + tiny() + "--out run >log")
                            .c_str()),
            0);
  // A checkpoint that cannot be read has one before it.
  for (const auto& odd : testing::odd_files(odd_.path())) {
    if (odd.path.filename().string().size() > 255) continue;  // no link to it can be made
    const fs::path plan = work_.path() / "run" / "plan.json";
    fs::remove(plan);
    fs::create_symlink(odd.path, plan);
    const std::string said = failure("train --resume run --epochs 2");
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, "run/plan.json", said);
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, odd.reason, said);
  }
}

}  // namespace
}  // namespace crossbow
