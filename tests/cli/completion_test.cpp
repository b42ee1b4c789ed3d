// The scripts of `crossbow completion`, in the shells that they are for.
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/program.h"

namespace crossbow {
namespace {

using testing::expect_says;

class Completion : public testing::ProgramTest {
 protected:
  void SetUp() override {
    for (const char* shell : {"bash", "zsh", "fish"}) {
      const Outcome o = crossbow(std::string("completion ") + shell);
      ASSERT_EQ(o.code, 0) << o.err;
      std::ofstream(path(std::string("crossbow.") + shell)) << o.out;
    }
  }
  bool has(const std::string& program) const { return shell("command -v " + program).code == 0; }
  /// What bash offers, one a line, for words as it cuts them.
  std::string offered(const std::string& words) const {
    std::ofstream(path("ask.bash")) << "source ./crossbow.bash\nCOMP_WORDS=(" << words
                                    << ")\nCOMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 ))\n_crossbow\n"
                                       "printf '%s\\n' \"${COMPREPLY[@]}\"\n";
    const Outcome o = shell("bash --norc ./ask.bash");
    EXPECT_EQ(o.err, "");
    return '\n' + o.out;
  }
};

TEST_F(Completion, BashOffersCommandsOptionsAndValues) {
  if (!has("bash")) GTEST_SKIP() << "no bash";
  EXPECT_EQ(offered("crossbow pred"), "\npredict\n");
  expect_says(offered("crossbow ''"), "\ntrain\n");
  EXPECT_EQ(offered("crossbow train --keep"), "\n--keep-best\n");
  EXPECT_EQ(offered("crossbow train --model len"), "\nlenet\n");
  EXPECT_EQ(offered("crossbow train --model = len"), "\nlenet\n");
  expect_says(offered("crossbow train --model ="), "\nresnet-32\n");
  EXPECT_EQ(offered("crossbow train --sync post"), "\npost-local-sgd\n");
  EXPECT_EQ(offered("crossbow bench --precision ''"), "\nf32\ntf32\nbf16\n");
  EXPECT_EQ(offered("crossbow train --learners ''"), "\nauto\n");
  EXPECT_EQ(offered("crossbow train --device r"), "\nref\n");
  EXPECT_EQ(offered("crossbow eval --data image"), "\nimagefolder:\nimagenet:\n");
  EXPECT_EQ(offered("crossbow models logi"), "\nlogistic\n");
  EXPECT_EQ(offered("crossbow completion f"), "\nfish\n");
  EXPECT_EQ(offered("crossbow data f"), "\nfetch\n");
  EXPECT_EQ(offered("crossbow data fetch cifar100"), "\ncifar100\n");
  EXPECT_EQ(offered("crossbow data fetch --fr"), "\n--from\n");
  EXPECT_EQ(offered("crossbow train --batch ''"), "\n\n");
}

TEST_F(Completion, BashOffersFilesWhereTheyAreMeant) {
  if (!has("bash")) GTEST_SKIP() << "no bash";
  std::filesystem::create_directory(path("a run"));
  std::filesystem::create_directory(path("another"));
  EXPECT_EQ(offered("crossbow eval a\\ "), "\na run\n");
  EXPECT_EQ(offered("crossbow train --resume an"), "\nanother\n");
  EXPECT_EQ(offered("crossbow eval run --data imagefolder : an"), "\nanother\n");
}

TEST_F(Completion, ZshTakesItsScript) {
  if (!has("zsh")) GTEST_SKIP() << "no zsh";
  const Outcome o = shell("zsh -f -n crossbow.zsh");
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(o.err, "");
  const Outcome loaded = shell(
      "zsh -f -c 'autoload -Uz compinit && compinit -D -u && source ./crossbow.zsh && "
      "print ${_comps[crossbow]}'");
  EXPECT_EQ(loaded.out, "_crossbow\n") << loaded.err;
}

TEST_F(Completion, FishOffersCommandsOptionsAndValues) {
  if (!has("fish")) GTEST_SKIP() << "no fish";
  const auto asked = [&](const std::string& line) {
    return '\n' +
           shell("HOME=. fish --no-config -c 'source crossbow.fish; complete -C \"" + line + "\"'")
               .out;
  };
  expect_says(asked("crossbow pre"), "\npredict\t");
  expect_says(asked("crossbow train --keep"), "\n--keep-best\t");
  expect_says(asked("crossbow train --model len"), "\nlenet");
  expect_says(asked("crossbow models vgg"), "\nvgg-16");
}

TEST_F(Completion, SaysWhichShellsThereAre) {
  const Outcome o = crossbow("completion tcsh");
  EXPECT_EQ(o.code, 2);
  expect_says(o.err, "choose bash, zsh or fish");
  EXPECT_EQ(nlohmann::json::parse(crossbow("completion fish --json").out)["shell"], "fish");
}

}  // namespace
}  // namespace crossbow
