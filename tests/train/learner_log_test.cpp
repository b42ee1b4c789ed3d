// Changes of learners are kept in a file of their own: a run that goes on makes them again.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "support/error_text.h"
#include "support/text.h"
#include "train/checkpoints.h"
#include "train/record_json.h"
#include "train/scripted_search.h"

namespace crossbow {
namespace {

namespace fs = std::filesystem;
using testing::error_of;
using testing::expect_same_bits;
using testing::expect_says;
using testing::kNone;
using testing::kTwoAreFaster;
using testing::kTwoAreSlow;
using testing::load;
using testing::ScriptedSearch;
using testing::text_of;

class LearnerLogFile : public ::testing::Test {
 protected:
  void write(const std::string& text) { std::ofstream(path_) << text; }
  std::string line(const LearnerChange& c) { return to_json(c).dump() + '\n'; }
  std::string read(LearnerLog& log) {
    std::string notes;
    log.read([&](std::string_view text) { notes += text; });
    return notes;
  }
  std::string read_error() {
    return error_of([&] {
      LearnerLog log(path_);
      read(log);
    });
  }

  data::TemporaryFolder folder_;
  const fs::path path_ = folder_.path() / "learners.jsonl";
  const LearnerChange first_{1, 2, {2, 1}, false}, second_{1, 2, {4, 2}, true};
};

TEST_F(LearnerLogFile, GrowsAndComesBack) {
  LearnerLog none(path_);
  EXPECT_EQ(read(none), "");
  EXPECT_FALSE(fs::exists(path_));
  none.append(first_);
  LearnerLog log(path_);
  EXPECT_EQ(read(log), "");
  log.append(second_);
  LearnerLog again(path_);
  EXPECT_EQ(read(again), "");
  EXPECT_EQ(again.changes(), (std::vector{first_, second_}));
}

TEST_F(LearnerLogFile, ADamagedLastLineIsDroppedWithANote) {
  const std::string whole = line(first_);
  for (const std::string& tail : {line(second_).substr(0, 20), line(second_).substr(0, 30) + '\n',
                                  std::string(50, '\0'), std::string("{}\n")}) {
    write(whole + tail);
    LearnerLog log(path_);
    expect_says(read(log), "the last line is damaged and was dropped");
    EXPECT_EQ(log.changes(), std::vector{first_});
    EXPECT_EQ(text_of(path_), whole);
  }
}

TEST_F(LearnerLogFile, AnyOtherDamagedLineIsRefused) {
  const auto refused = [&](const std::string& middle, const char* why) {
    write(line(first_) + middle + line(second_));
    const std::string error = read_error();
    expect_says(error, "learners.jsonl: line 2: ");
    expect_says(error, why);
    expect_says(error, "put the file back");
  };
  refused("rubbish\n", "it is no change of learners");
  refused("\n", "it is no change of learners");
  refused(line({1, 1, {1, 1}, false}), "it lies before the change above it");
  refused(line({1, -1, {1, 1}, false}), "is not in 0 to");
  refused(line({-1, 1, {1, 1}, false}), "is not in 0 to");
  refused(line({1, 3, {0, 1}, false}), "is not in 1 to");
  refused(line({1, 3, {1, 0}, false}), "is not in 1 to");
  refused(line({1, 3, {1 << 20, 1}, false}), "is not in 1 to");
  refused(line({1, 3, {1, 1 << 20}, false}), "is not in 1 to");
  refused(R"({"epoch":1,"batch":3,"learners":4294967297,"threads_per_learner":1,"settled":true})"
          "\n",
          "is not in 1 to");
}

TEST_F(LearnerLogFile, NothingElseInItsPlaceKeepsARunWaiting) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0666), 0);
  expect_says(read_error(), "is not a regular file");
  fs::remove(path_);
  fs::create_directory(path_);
  expect_says(read_error(), "cannot open");
}

/// Keeps every checkpoint that the run has had when an epoch ends, and may stop it.
class Keeper : public Observer {
 public:
  Keeper(std::string folder, int64_t stop_in) : folder_(std::move(folder)), stop_in_(stop_in) {}
  void epoch_done(const EpochRecord& record) override {
    epochs_ = record.epoch;
    const std::string copy = folder_ + "-" + std::to_string(record.epoch);
    fs::copy_file(folder_ + "/checkpoint", copy);
    copies.push_back(copy);
  }
  /// Three iterations into that epoch.
  bool stop_requested() override { return epochs_ == stop_in_ && ++asked_ > 3; }

  std::vector<std::string> copies;

 private:
  const std::string folder_;
  const int64_t stop_in_;
  std::atomic<int64_t> epochs_{0}, asked_{0};
};

/// Also those that a search would not make now.
TEST_F(ScriptedSearch, ARunThatSettledMakesTheSameChangesFromEveryCheckpoint) {
  Keeper keeper(folder("run"), -1);
  run(options("run", 25), kTwoAreFaster, keeper);
  const Checkpoint whole = load(folder("run"));
  EXPECT_TRUE(whole.position.settled);
  EXPECT_EQ(whole.position.arrangement.learners, 2);
  ASSERT_EQ(keeper.copies.size(), 25u);
  for (const std::string& copy : keeper.copies) {
    const std::string again = crashed("run", copy);
    go_on(again, 25, kNone);
    expect_same_bits(load(folder(again)), whole);
    EXPECT_EQ(lines(again), lines("run")) << copy;
  }
}

TEST_F(ScriptedSearch, ASearchThatIsOpenAtTheEndDoesNotBeginAgainBefore) {
  Keeper keeper(folder("run"), -1);
  run(options("run", 15), kTwoAreSlow, keeper);  // says nothing of two learners
  const Checkpoint whole = load(folder("run"));
  EXPECT_FALSE(whole.position.settled);
  EXPECT_EQ(whole.position.arrangement.learners, 2);
  for (const std::string& copy : keeper.copies) {
    const std::string again = crashed("run", copy);
    go_on(again, 15, kTwoAreFaster);
    expect_same_bits(load(folder(again)), whole);
    EXPECT_EQ(lines(again), lines("run")) << copy;
  }
}

/// From the furthest place of any checkpoint on a run searches as the one from the newest does.
TEST_F(ScriptedSearch, AnOpenSearchGoesOnWhereTheNewestCheckpointStands) {
  Keeper keeper(folder("run"), 12);
  run(options("run", 40), kTwoAreSlow, keeper);
  const Checkpoint stopped = load(folder("run"));
  EXPECT_FALSE(stopped.position.settled);
  EXPECT_EQ(stopped.position.epoch, 12);
  EXPECT_GT(stopped.position.batch, 0);
  keeper.copies.push_back(folder("run") + "/checkpoint");
  std::vector<std::string> again;
  for (const std::string& copy : keeper.copies) again.push_back(crashed("run", copy));
  for (const std::string& run : again) go_on(run, 40, kTwoAreFaster);
  const Checkpoint newest = load(folder(again.back()));
  EXPECT_TRUE(newest.position.settled);
  for (const std::string& run : again) {
    expect_same_bits(load(folder(run)), newest);
    EXPECT_EQ(lines(run), lines(again.back()));
  }
}

/// However often the run is stopped and goes on.
TEST_F(ScriptedSearch, LinesAreWrittenOnceAndNeverAltered) {
  Keeper keeper(folder("run"), 2);
  run(options("run", 30), kTwoAreFaster, keeper);
  std::string before = lines("run");
  EXPECT_NE(before, "");
  for (int64_t epochs = 3; epochs <= 30; epochs += 9) {
    go_on("run", epochs, kTwoAreFaster);
    const std::string after = lines("run");
    EXPECT_TRUE(after.starts_with(before));
    before = after;
  }
  std::set<std::string> different;
  std::istringstream all(before);
  for (std::string line; std::getline(all, line);) EXPECT_TRUE(different.insert(line).second);
  EXPECT_EQ(text_of(folder("run") + "/metrics.jsonl").find("threads_per_learner"),
            std::string::npos);
}

/// A checkpoint that is saved on the way counts the changes that are made, not those that follow.
TEST_F(ScriptedSearch, ChangesThatFollowAreMadeAlsoAfterASecondStop) {
  Keeper keeper(folder("run"), -1);
  run(options("run", 25), kTwoAreFaster, keeper);
  const std::string again = crashed("run", keeper.copies.front());
  TrainOptions o = options(again, 25);
  o.retune = false;
  o.resume = o.out;
  testing::StopAfter at_once(0);
  run(o, kNone, at_once);
  go_on(again, 25, kNone);
  expect_same_bits(load(folder(again)), load(folder("run")));
  EXPECT_EQ(lines(again), lines("run"));
}

/// --retune searches behind the changes that the run has made.
TEST_F(ScriptedSearch, RetuneLooksAgainAfterTheLastChange) {
  Keeper keeper(folder("run"), -1);
  run(options("run", 25), kTwoAreFaster, keeper);
  const std::string before = lines("run");
  const std::string again = crashed("run", keeper.copies.front());
  TrainOptions o = options(again, 27);
  o.resume = o.out;
  Observer silent;
  run(o, kNone, silent);
  EXPECT_TRUE(lines(again).starts_with(before));
  EXPECT_GT(lines(again).size(), before.size());
  EXPECT_EQ(load(folder(again)).position.arrangement.learners, 1);
}

TEST_F(ScriptedSearch, ARunWhoseChangesAreLostSaysSo) {
  Keeper keeper(folder("run"), -1);
  run(options("run", 25), kTwoAreFaster, keeper);
  fs::remove(folder("run") + "/learners.jsonl");
  TrainOptions o = options("run", 26);
  o.retune = false;
  o.resume = o.out;
  testing::StopAfter watch(1000000);
  run(o, kNone, watch);
  expect_says(watch.notes, "learners.jsonl lacks");
}

}  // namespace
}  // namespace crossbow
