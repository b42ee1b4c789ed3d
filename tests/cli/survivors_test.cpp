// Ranks that go on when others are lost: over Open MPI 5, where scripts/cluster --survivors has put
// it. Without that they are skipped.
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>

#include "cli/program.h"
#include "support/paths.h"
#include "train/checkpoints.h"

namespace crossbow::testing {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class Survivors : public ProgramTest {
 protected:
  Survivors() : ProgramTest(/*training_images=*/176) {}

  void SetUp() override {
    const char* const options = std::getenv("ASAN_OPTIONS");
    setenv("ASAN_OPTIONS", fmt::format("{}:detect_leaks=0", options ? options : "").c_str(), 1);
    const Outcome o = shell(library_path() + crossbow_binary() + " --version");
    if (o.out.find("Open MPI v5") == std::string::npos) {
      GTEST_SKIP() << "scripts/cluster --survivors has not installed Open MPI 5";
    }
  }
  static fs::path prefix() { return fs::path(source_folder()) / "build/openmpi5"; }
  static std::string library_path() {
    return fmt::format("env LD_LIBRARY_PATH={}/crossbow ", prefix().string());
  }
  /// A run that takes some seconds.
  std::string train(int ranks, const std::string& more) const {
    return fmt::format(
        "exec {0}{1}/bin/mpirun --with-ft ulfm --oversubscribe "
        "--bind-to none --allow-run-as-root -x LD_LIBRARY_PATH --mca mpi_ft_detector true --mca "
        "mpi_ft_detector_period 0.3 --mca mpi_ft_detector_timeout 1.0 --mca "
        "mpi_ft_detector_thread false -n {2} {3} train --model resnet-20 --learners 1 "
        "--threads-per-learner 1 --epochs {4} --batch 16 --json --out run --data {5} {6}",
        library_path(), prefix().string(), ranks, crossbow_binary(), kEpochs, data_.spec(), more);
  }
  /// The process of a rank of the run.
  pid_t process_of(int rank) const {
    for (const auto& entry : fs::directory_iterator("/proc")) {
      std::error_code gone;
      if (text_of(entry.path() / "comm") != "crossbow\n" ||
          !fs::equivalent(entry.path() / "cwd", path(""), gone)) {
        continue;
      }
      const std::string variable = fmt::format("OMPI_COMM_WORLD_RANK={}", rank);
      const std::string all = '\0' + text_of(entry.path() / "environ");
      if (all.find('\0' + variable + '\0') != std::string::npos) {
        return std::stoi(entry.path().filename());
      }
    }
    return 0;
  }
  /// Of a run whose rank gets a signal in the third epoch.
  Outcome disturbed_end(int ranks, const std::string& options, int victim, int number) const {
    fs::remove(path("err"));
    const pid_t child = start(train(ranks, options));
    EXPECT_TRUE(comes([&] { return text_of(path("err")).find("epoch 2/") != std::string::npos; }));
    const pid_t process = process_of(victim);
    EXPECT_GT(process, 0);
    if (process > 0) kill(process, number);
    return end_of(child);
  }
  json disturbed(int ranks, const std::string& options, int victim, int number) const {
    const Outcome o = disturbed_end(ranks, options, victim, number);
    EXPECT_EQ(o.code, 0) << o.err;
    EXPECT_EQ(load(path("run").string()).history.size(), size_t{kEpochs});
    std::vector<int> epochs;
    std::istringstream lines(text_of(path("run") / "metrics.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      if (const json j = json::parse(line); j.contains("epoch")) epochs.push_back(j["epoch"]);
    }
    std::vector<int> all(kEpochs);
    std::iota(all.begin(), all.end(), 1);
    EXPECT_EQ(epochs, all);
    return o.code == 0 ? json::parse(o.out) : json();
  }

  static constexpr int kEpochs = 40;
};

TEST_F(Survivors, GoOnWhateverRankIsKilled) {
  for (const std::string sync : {"sma", "ssgd", "async-easgd"}) {
    for (const int victim : {0, 2}) {
      SCOPED_TRACE(fmt::format("{} without rank {}", sync, victim));
      const json run = disturbed(3, "--sync " + sync, victim, SIGKILL);
      ASSERT_FALSE(run.is_null());
      EXPECT_EQ(run["ranks"], 2);
      EXPECT_EQ(run["epochs"], kEpochs);
      ASSERT_EQ(run["lost_ranks"].size(), 1u);
      EXPECT_EQ(run["lost_ranks"][0]["rank"], victim);
      EXPECT_LT(run["history"].back()["train_loss"], run["history"][0]["train_loss"]);
      fs::remove_all(path("run"));
    }
  }
}

/// And kill the one that stands still, or the launcher would wait for it.
TEST_F(Survivors, GoOnWithoutARankThatStandsStill) {
  const json run = disturbed(2, "--sync sma", 0, SIGSTOP);
  ASSERT_FALSE(run.is_null());
  EXPECT_EQ(run["ranks"], 1);
  EXPECT_EQ(run["lost_ranks"].size(), 1u);
}

TEST_F(Survivors, TakeInASpare) {
  for (const std::string sync : {"sma", "gossip-pull"}) {
    SCOPED_TRACE(sync);
    const json run = disturbed(3, "--spares 1 --sync " + sync, 1, SIGKILL);
    ASSERT_FALSE(run.is_null());
    EXPECT_EQ(run["ranks"], 2);
    EXPECT_EQ(run["lost_ranks"].size(), 1u);
    fs::remove_all(path("run"));
  }
}

TEST_F(Survivors, EndWhereTooFewAreLeft) {
  const Outcome o = disturbed_end(2, "--min-ranks 2", 1, SIGKILL);
  EXPECT_EQ(o.code, 1);
  expect_says(o.err, "only 1 rank left, where at least 2 are to go on");
  EXPECT_EQ(crossbow("eval run").code, 0);
}

class RanksAlone : public ProgramTest {};

TEST_F(RanksAlone, RefuseWhatNeedsOthers) {
  for (const std::string flag : {"--spares 1", "--min-ranks 2"}) {
    const Outcome o = crossbow(tiny(flag));
    EXPECT_EQ(o.code, 2) << o.err;
    expect_says(o.err, flag + ": this is one process, not several ranks");
  }
}

}  // namespace
}  // namespace crossbow::testing
