// Ranks that go on when others are lost.
#include "cli/survivors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace crossbow::testing {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class Survivors : public SurvivorsTest {
 protected:
  pid_t start_run(int ranks, const std::string& options) const {
    fs::remove(path("err"));
    const pid_t child = start("exec " + mpirun(ranks) + train(options));
    EXPECT_TRUE(has_begun());
    return child;
  }
  /// Of a run whose rank gets a signal in the third epoch.
  Outcome disturbed_end(int ranks, const std::string& options, int victim, int number) const {
    const pid_t child = start_run(ranks, options), process = process_of(victim);
    EXPECT_GT(process, 0);
    if (process > 0) kill(process, number);
    return end_of(child);
  }
  json disturbed(int ranks, const std::string& options, int victim, int number) const {
    return result_of(disturbed_end(ranks, options, victim, number));
  }
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
      EXPECT_GE(run["lost_ranks"][0]["repeated_samples"], 0);
      EXPECT_LE(run["lost_ranks"][0]["repeated_samples"], kTrainingImages);
      EXPECT_LT(run["history"].back()["train_loss"], run["history"][0]["train_loss"]);
      fs::remove_all(path("run"));
    }
  }
}

/// While they part with the first, for which they take 0.1 s and more.
TEST_F(Survivors, GoOnWhereOneMoreIsKilledMeanwhile) {
  using std::chrono_literals::operator""ms;
  for (const auto pause : {80ms, 120ms, 160ms, 200ms}) {
    SCOPED_TRACE(fmt::format("{} ms later", pause.count()));
    const pid_t child = start_run(4, "--sync sma");
    const pid_t first = process_of(1), second = process_of(2);
    ASSERT_GT(std::min(first, second), 0);
    kill(first, SIGKILL);
    std::this_thread::sleep_for(pause);
    kill(second, SIGKILL);
    const json run = result_of(end_of(child));
    ASSERT_FALSE(run.is_null());
    EXPECT_EQ(run["ranks"], 2);
    EXPECT_EQ(run["epochs"], kEpochs);
    EXPECT_EQ(run["lost_ranks"].size(), 2u);
    fs::remove_all(path("run"));
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

/// It knows nothing of the run.
TEST_F(Survivors, ASpareDoesNotBeginAnew) {
  const Outcome o = disturbed_end(2, "--spares 1", 0, SIGKILL);
  EXPECT_NE(o.code, 0);
  expect_says(o.err, "all ranks that trained are lost; go on from the last checkpoint by --resume");
  EXPECT_EQ(crossbow("eval run").code, 0);
}

TEST_F(Survivors, ASpareThatHasTrainedGoesOnAlone) {
  using std::chrono_literals::operator""s;
  const pid_t child = start_run(3, "--spares 1 --sync sma");
  const pid_t first = process_of(0), second = process_of(1);
  ASSERT_GT(std::min(first, second), 0);
  kill(second, SIGKILL);
  std::this_thread::sleep_for(2s);
  kill(first, SIGKILL);
  const json run = result_of(end_of(child));
  ASSERT_FALSE(run.is_null());
  EXPECT_EQ(run["ranks"], 1);
  EXPECT_EQ(run["lost_ranks"].size(), 2u);
}

TEST_F(Survivors, UnlikeWorkersHaveNoSpares) {
  const Outcome o = shell(mpirun(2) + crossbow_binary() +
                          " train --model logistic --spares 1 --sync adaptive-hogbatch");
  EXPECT_EQ(o.code, 2);
  expect_says(o.err, "its nodes share memory");
}

TEST_F(Survivors, EndWhereTooFewAreLeft) {
  const Outcome o = disturbed_end(2, "--min-ranks 2", 1, SIGKILL);
  EXPECT_EQ(o.code, 1);
  expect_says(o.err, "only 1 rank left, where at least 2 are to go on");
  EXPECT_EQ(crossbow("eval run").code, 0);
}

TEST_F(Survivors, RefuseMoreThanThereAre) {
  const auto refused = [&](const std::string& option, const std::string& sentence) {
    const Outcome o = shell(mpirun(2) + train(option));
    EXPECT_EQ(o.code, 2) << o.err;
    expect_says(o.err, option + sentence);
    expect_one_complaint(o);
  };
  refused("--spares 2", ": of 2 ranks one at least must train");
  refused("--min-ranks 3", ": there are 2 ranks");
}

TEST_F(Survivors, AgreeOnHowManyTheyAre) {
  const auto with_another = [&](const std::string& option) {
    return shell(mpirun(2) + train("", 1) + " : -n 1 " + train(option, 1));
  };
  const Outcome o = with_another("--min-ranks 2");
  EXPECT_EQ(o.code, 1) << o.err;
  expect_says(o.err, "the ranks are not alike: --min-ranks is 1 on ");
  expect_one_complaint(o);
  const json run = result_of(with_another("--spares 2"), 1);
  ASSERT_FALSE(run.is_null());
  EXPECT_EQ(run["ranks"], 3) << "the first one's number counts";
}

class RanksAlone : public ProgramTest {};

TEST_F(RanksAlone, RefuseWhatNeedsOthers) {
  for (const std::string flag : {"--spares 1", "--min-ranks 2"}) {
    const Outcome o = crossbow(tiny(flag));
    EXPECT_EQ(o.code, 2) << o.err;
    expect_says(o.err, flag + ": this is one process, not several ranks");
  }
}

TEST_F(RanksAlone, LoadNoMpi) {
  const Outcome o = shell("LD_DEBUG=files " + crossbow_binary() + ' ' + tiny(""));
  EXPECT_EQ(o.code, 0);
  EXPECT_NE(o.err.find("libdnnl"), o.err.npos);
  EXPECT_EQ(o.err.find("libcrossbow_mpi"), o.err.npos);
}

TEST_F(RanksAlone, WithoutTheModuleAreNotOneOfSeveral) {
  fs::copy_file(crossbow_binary(), path("alone"));
  const Outcome o = shell("unset LD_LIBRARY_PATH; OMPI_COMM_WORLD_SIZE=2 ./alone " + tiny(""));
  EXPECT_EQ(o.code, 1);
  expect_says(o.err, "started this process as one of several, and there is no MPI (");
  expect_says(o.err, "scripts/cluster installs it, and builds anew");
}

}  // namespace
}  // namespace crossbow::testing
