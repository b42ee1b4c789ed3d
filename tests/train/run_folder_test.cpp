// What a run does to a folder, and what it leaves alone.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/file.h"
#include "support/error_text.h"
#include "support/full_disk.h"
#include "support/text.h"
#include "train/checkpoints.h"
#include "train/run_folder.h"
#include "train/tiny_run.h"

namespace crossbow {
namespace {

namespace fs = std::filesystem;
using testing::error_of;
using testing::expect_says;
using testing::FullDisk;
using testing::load;
using testing::text_of;
using testing::tiny_net;
using testing::tiny_options;
using testing::TinyData;

class RunFolders : public ::testing::Test {
 protected:
  TrainOptions options(const std::string& run) {
    TrainOptions o = tiny_options(data_, "ref");
    o.out = folder(run);
    return o;
  }
  std::string folder(const std::string& run) { return (runs_.path() / run).string(); }

  TinyData data_;
  data::TemporaryFolder runs_;
};

/// A net that has too few outputs: known only when the data are open.
Tensor unfit(Tensor x) {
  return dense(x, Dense{.outputs = 9});
}

TEST_F(RunFolders, FilesThatARunWouldWriteOverAreRefusedAndKept) {
  for (const char* file : {"checkpoint.best", "checkpoint.best.next", "checkpoint.kept",
                           "config.toml", "metrics.jsonl", "learners.jsonl", "plan.json"}) {
    fs::create_directory(folder(file));
    const std::string path = std::string(file) + '/' + file;
    std::ofstream(runs_.path() / path) << "by hand";
    for (auto* net : {&tiny_net, &unfit}) {
      const std::string error = error_of([&] { train(*net, options(file)); });
      expect_says(error, std::string("holds a ") + file + " already");
      expect_says(error, "choose another folder");
      EXPECT_EQ(text_of(folder(path)), "by hand");
    }
  }
  for (const char* file : {"checkpoint", "checkpoint.previous"}) {
    const std::string run = std::string("with-") + file;
    fs::create_directory(folder(run));
    std::ofstream(folder(run) + '/' + file) << "of a run";
    expect_says(error_of([&] { train(tiny_net, options(run)); }), "holds a run already");
  }
  fs::create_directory(folder("link"));
  fs::create_symlink("nowhere", folder("link") + "/plan.json");
  expect_says(error_of([&] { train(tiny_net, options("link")); }), "holds a plan.json already");
}

TEST_F(RunFolders, SayWhatIsLeftOpenHasComeTo) {
  TrainOptions o = options("run");
  o.sync = "sma-paper";
  o.learners = 4;
  o.central_momentum = 0.8;
  train(tiny_net, o);
  const std::string config = text_of(folder("run") + "/config.toml");
  expect_says(config, "central-momentum = 0.8\n");
  expect_says(config,
              "# Of 4 learners; 4 times the rate of one\n# sync-period = 1\n# alpha = 0.25\n");
  EXPECT_EQ(config.find("# central-momentum"), std::string::npos);
}

TEST_F(RunFolders, OtherFilesInTheFolderStay) {
  fs::create_directory(folder("run"));
  std::ofstream(folder("run") + "/notes.txt") << "by hand";
  EXPECT_NE(error_of([&] { train(unfit, options("run")); }), "no error");
  EXPECT_EQ(text_of(folder("run/notes.txt")), "by hand");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder("run")), {}), 1);
  train(tiny_net, options("run"));
  EXPECT_EQ(text_of(folder("run/notes.txt")), "by hand");
}

TEST_F(RunFolders, ARunThatCannotBeginTakesAwayOnlyTheFoldersThatItMade) {
  EXPECT_NE(error_of([&] { train(unfit, options("new")); }), "no error");
  EXPECT_FALSE(fs::exists(folder("new")));
  EXPECT_NE(error_of([&] { train(unfit, options("slash/")); }), "no error");
  EXPECT_FALSE(fs::exists(folder("slash")));
  EXPECT_NE(error_of([&] { train(unfit, options("of/several/folders")); }), "no error");
  EXPECT_FALSE(fs::exists(folder("of")));
  fs::create_symlink("nowhere", folder("dangling"));
  fs::create_symlink("loop", folder("loop"));
  for (const char* link : {"dangling", "loop"}) {
    EXPECT_NE(error_of([&] { train(unfit, options(link)); }), "no error");
    EXPECT_TRUE(fs::is_symlink(folder(link))) << link;
  }
  fs::create_directory(folder("empty"));
  EXPECT_NE(error_of([&] { train(unfit, options("empty")); }), "no error");
  EXPECT_TRUE(fs::exists(folder("empty")));
}

/// Looks at the folder while the data are opened, when its run is chosen already.
class WhileLoading : public Observer {
 public:
  explicit WhileLoading(const std::string& folder) : folder_(folder) {}
  void started(const TrainOptions&, int64_t) override { look(); }
  void loading(std::string_view, int64_t, int64_t) override { look(); }

  bool locked = true;

 private:
  void look() { locked = locked && !lock_folder(folder_); }

  const std::string folder_;
};

/// So that what was checked and loaded is what is trained.
TEST_F(RunFolders, TheFolderIsLockedBeforeTheDataAreOpened) {
  WhileLoading observer(folder("run"));
  train(tiny_net, options("run"), &observer);
  EXPECT_TRUE(observer.locked);
  TrainOptions again = options("run");
  again.resume = again.out;
  again.epochs = 4;
  again.data = "mnist:nowhere";
  {
    const auto other = lock_folder(folder("run"));
    for (const auto& attempt : {error_of([&] { train(tiny_net, again); }), error_of([&] {
                                  resume(folder("run"), [](const auto& before) { return before; });
                                })}) {
      expect_says(attempt, "another process is training into");
    }
  }
  again.data = data_.spec();
  train(tiny_net, again, &observer);
  EXPECT_TRUE(observer.locked);
  EXPECT_TRUE(lock_folder(folder("run")));
}

/// Whatever ends a run leaves one that can be gone on with: nothing comes before the checkpoint.
class LooksAtTheFirstFiles : public Observer {
 public:
  explicit LooksAtTheFirstFiles(const std::string& folder) : folder_(folder) {}
  void started(const TrainOptions&, int64_t) override { empty = fs::is_empty(folder_); }
  bool empty = false;

 private:
  const std::string folder_;
};

TEST_F(RunFolders, TheFirstFileIsTheCheckpoint) {
  LooksAtTheFirstFiles observer(folder("run"));
  train(tiny_net, options("run"), &observer);
  EXPECT_TRUE(observer.empty);
  const Checkpoint whole = load(folder("run"));
  // As if the process had been killed right after its first file.
  testing::StopAfter at_once(0);
  train(tiny_net, options("killed"), &at_once);
  for (const char* file : {"config.toml", "metrics.jsonl", "plan.json"}) {
    fs::remove(folder("killed") + '/' + file);
  }
  TrainOptions again = options("killed");
  again.resume = again.out;
  train(tiny_net, again);
  testing::expect_same_bits(whole, load(folder("killed")));
  for (const char* file : {"config.toml", "metrics.jsonl", "plan.json"}) {
    EXPECT_TRUE(fs::exists(folder("killed") + '/' + file)) << file;
  }
}

TEST_F(RunFolders, ALineThatCannotBeWrittenWholeIsTakenBack) {
  const fs::path path = runs_.path() / "metrics.jsonl";
  MetricsLog log(path, 0, [](std::string_view) {});
  log.step(1, 16, 0.5, 0.1);
  const int64_t one = log.bytes();
  {
    const FullDisk full(static_cast<rlim_t>(one + 10));
    const std::string error = error_of([&] { log.step(2, 32, 0.5, 0.1); });
    expect_says(error, "metrics.jsonl (File too large): make room");
  }
  EXPECT_EQ(static_cast<int64_t>(fs::file_size(path)), one);
  EXPECT_EQ(log.bytes(), one);
  log.step(2, 32, 0.5, 0.1);
  EXPECT_EQ(text_of(folder("metrics.jsonl")),
            "{\"step\":1,\"samples\":16,\"loss\":0.5,\"lr\":0.1}\n"
            "{\"step\":2,\"samples\":32,\"loss\":0.5,\"lr\":0.1}\n");
}

/// Those that the checkpoint has made are not made again, and those before its place never.
TEST_F(RunFolders, ChangesOfLearnersAfterAPlaceAreBehindThoseThatItsCheckpointHasMade) {
  fs::create_directory(folder("run"));
  RunFolder run = RunFolder::go_on(folder("run"));
  const LearnerChange first{1, 2, {2, 1}, false}, second{1, 2, {4, 1}, false},
      third{3, 0, {4, 1}, true};
  for (const LearnerChange& change : {first, second, third}) run.learners().append(change);
  const auto after = [&](int64_t epoch, int64_t batch, int64_t made) {
    Position place;
    place.epoch = epoch;
    place.batch = batch;
    place.changes = made;
    return run.changes_after(place);
  };
  EXPECT_EQ(after(0, 0, 0), (std::vector{first, second, third}));
  EXPECT_EQ(after(1, 2, 0), (std::vector{first, second, third}));
  EXPECT_EQ(after(1, 2, 1), (std::vector{second, third}));
  EXPECT_EQ(after(1, 2, 2), (std::vector{third}));
  EXPECT_EQ(after(2, 0, 0), (std::vector{third}));
  EXPECT_TRUE(after(3, 0, 3).empty());
  EXPECT_TRUE(after(0, 0, 4).empty());  // lines are lost
}

/// As after a power cut on a file system that lost what the checkpoint counts.
TEST_F(RunFolders, MetricsThatAreShorterThanTheCheckpointSaysGetANote) {
  train(tiny_net, options("run"));
  const fs::path path = folder("run") + "/metrics.jsonl";
  const auto whole = static_cast<int64_t>(fs::file_size(path));
  fs::resize_file(path, static_cast<uintmax_t>(whole - 10));  // in the middle of a line
  TrainOptions again = options("run");
  again.resume = again.out;
  again.epochs = 4;
  testing::StopAfter watch(1000);
  train(tiny_net, again, &watch);
  expect_says(watch.notes, "metrics.jsonl is 10 bytes shorter than the checkpoint says");
  std::istringstream lines(text_of(folder("run/metrics.jsonl")));
  for (std::string line; std::getline(lines, line);) {
    EXPECT_TRUE(nlohmann::json::accept(line)) << line;
  }
}

TEST_F(RunFolders, APipeAsMetricsKeepsNobodyWaiting) {
  train(tiny_net, options("run"));
  fs::remove(folder("run") + "/metrics.jsonl");
  ASSERT_EQ(mkfifo((folder("run") + "/metrics.jsonl").c_str(), 0666), 0);
  TrainOptions again = options("run");
  again.resume = again.out;
  again.epochs = 4;
  expect_says(error_of([&] { train(tiny_net, again); }), "is not a regular file");
}

}  // namespace
}  // namespace crossbow
