// Runs as processes: killed at any moment, or gone on with on another machine, they end as if
// nothing had happened.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <random>

#include "cli/program.h"
#include "core/machine.h"
#include "support/text.h"
#include "train/checkpoints.h"

namespace crossbow {
namespace {

namespace fs = std::filesystem;
using testing::expect_same_bits;
using testing::load;
using testing::text_of;

class Processes : public testing::ProgramTest {
 protected:
  Processes() : ProgramTest(400) {}

  std::string folder(const std::string& run) { return path(run).string(); }

  /// Starts `crossbow ARGUMENTS` in a process of its own.
  pid_t start(const std::string& arguments, const std::string& machine = "") {
    return ProgramTest::start("exec " + machine + crossbow_binary() + ' ' + arguments);
  }
  /// Kills a test, of a longer campaign; else 0.
  static int campaign() {
    const char* const kills = std::getenv("CROSSBOW_KILLS");
    return kills ? std::atoi(kills) : 0;
  }
  std::string told() { return text_of(path("err")); }
  void copy_checkpoint(const std::string& run) {
    const std::string copy = folder(run) + "-checkpoint-" + std::to_string(copies_.size());
    fs::copy_file(folder(run) + "/checkpoint", copy);
    copies_.push_back(copy);
  }
  /// Kills the run again and again, copying the checkpoints that it leaves, then lets it end.
  void torment(const std::string& run, const std::string& begin, int kills, unsigned longest_ms) {
    if (campaign() > 0) kills = campaign();
    const auto seed = static_cast<uint32_t>(std::random_device{}());
    RecordProperty("seed", std::to_string(seed));
    std::mt19937 random(seed);
    int met = 0;  // before they had ended
    for (int i = 0; i < kills; ++i) {
      const bool begun = fs::exists(folder(run) + "/checkpoint");
      const pid_t child = start(begun ? "train --resume " + run : begin);
      std::this_thread::sleep_for(std::chrono::milliseconds(random() % longest_ms));
      kill(child, SIGKILL);
      const int code = wait_for(child);
      ASSERT_TRUE(code == -SIGKILL || code == 0) << told();
      met += code == -SIGKILL ? 1 : 0;
      if (fs::exists(folder(run) + "/checkpoint")) copy_checkpoint(run);
    }
    std::printf("seed %u, %d of %d kills\n", seed, met, kills);
    const bool begun = fs::exists(folder(run) + "/checkpoint");
    ASSERT_EQ(wait_for(start(begun ? "train --resume " + run : begin)), 0) << told();
  }

  std::vector<std::string> copies_;
  const std::string train_ =
      "train --model logistic --batch 4 --epochs 25 --threads-per-learner 1 --log-every 7 --data " +
      data_.spec() + " --out ";
};

TEST_F(Processes, AKilledRunOfFixedLearnersEndsWithTheSameBits) {
  ASSERT_EQ(wait_for(start(train_ + "whole --learners 2")), 0) << told();
  torment("killed", train_ + "killed --learners 2", 8, 900);
  expect_same_bits(load(folder("whole")), load(folder("killed")));
  EXPECT_EQ(testing::step_lines(folder("killed")), testing::step_lines(folder("whole")));
}

TEST_F(Processes, ARunThatIsKilledWithinAnEpochGoesOnFromThere) {
  using Clock = std::chrono::steady_clock;
  Clock::duration took{};
  std::string rest;
  // Long enough to be hit.
  for (int epochs = 3; took < std::chrono::milliseconds(700); epochs *= 3) {
    rest = " --learners 2 --epochs " + std::to_string(epochs);
    fs::remove_all(folder("whole"));
    const auto begun = Clock::now();
    ASSERT_EQ(wait_for(start(train_ + "whole" + rest)), 0) << told();
    took = Clock::now() - begun;
  }
  const std::string saving = train_ + "killed --save-every 1e-9" + rest;
  const pid_t child = start(saving);
  EXPECT_TRUE(comes([&] {
    return fs::exists(folder("killed") + "/checkpoint") &&
           load(folder("killed")).position.batch > 0;
  }));
  kill(child, SIGKILL);
  ASSERT_EQ(wait_for(child), -SIGKILL) << told();
  copy_checkpoint("killed");
  torment("killed", saving, 6, 600);
  expect_same_bits(load(folder("whole")), load(folder("killed")));
  EXPECT_EQ(testing::step_lines(folder("killed")), testing::step_lines(folder("whole")));
  const auto is_within = [](const std::string& copy) { return load(copy).position.batch > 0; };
  EXPECT_TRUE(std::ranges::any_of(copies_, is_within));
}

/// From each container, whose pictures are the same.
TEST_F(Processes, AKilledRunOfPicturesGoesOnFromThere) {
  const auto run_of = [&](const std::string& kind) {
    return fmt::format(
        "train --model logistic --image-size 16 --batch 4 --epochs {} --learners 2 "
        "--threads-per-learner 1 --checkpoint-every 1e-9 --data imagenet:{} --out ",
        2 + campaign() / 4, kind);
  };
  for (const std::string kind : {"tfrecord", "tar", "imagefolder"}) {
    SCOPED_TRACE(kind);
    ASSERT_EQ(wait_for(start("convert " + data_.spec() + ' ' + kind + ":" + kind)), 0) << told();
    ASSERT_EQ(wait_for(start(run_of(kind) + kind + "-whole")), 0) << told();
    torment(kind + "-killed", run_of(kind) + kind + "-killed", 2, 600);
    expect_same_bits(load(folder(kind + "-whole")), load(folder(kind + "-killed")));
  }
  expect_same_bits(load(folder("tar-whole")), load(folder("tfrecord-whole")));
}

/// When a search changes the learners is a matter of timing; but once done, a change is made again.
TEST_F(Processes, AKilledRunOfChangingLearnersMakesItsChangesAgain) {
  if (physical_cores() == 1) GTEST_SKIP() << "one core leaves nothing to choose";
  // Long enough to measure a throughput.
  torment("killed", train_ + "killed --retune --model mlp:layers=2,width=512 --epochs 60", 4, 5000);
  ASSERT_FALSE(copies_.empty());
  for (const std::string& copy : {copies_.front(), copies_.back()}) {
    fs::remove_all(folder("again"));
    fs::copy(folder("killed"), folder("again"), fs::copy_options::recursive);
    fs::copy_file(copy, folder("again") + "/checkpoint", fs::copy_options::overwrite_existing);
    ASSERT_EQ(wait_for(start("train --resume again")), 0) << told();
    expect_same_bits(load(folder("killed")), load(folder("again")));
  }
}

/// On one of two cores, one learner has ten steps; two would have six.
TEST_F(Processes, ADeterministicRunKeepsItsLearnersOnALargerMachine) {
  if (physical_cores() == 1) GTEST_SKIP() << "there is no larger machine than one of one core";
  const std::string tiny =
      "train --model logistic --batch 80 --epochs 2 --deterministic --sync-period 9 --data " +
      data_.spec() + " --out run";
  ASSERT_EQ(wait_for(start(tiny, "taskset -c 0 ")), 0) << told();
  ASSERT_EQ(wait_for(start("train --resume run")), 0) << told();
  ASSERT_EQ(wait_for(start("train --resume run --epochs 3")), 0) << told();
  EXPECT_EQ(load(folder("run")).position.arrangement.learners, 1);
  EXPECT_EQ(load(folder("run")).position.step, 15);
}

}  // namespace
}  // namespace crossbow
