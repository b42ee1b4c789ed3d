// What a run does to a folder, and what it leaves alone.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "core/file.h"
#include "support/error_text.h"
#include "train/checkpoints.h"
#include "train/tiny_run.h"

namespace crossbow {
namespace {

namespace fs = std::filesystem;
using testing::error_of;
using testing::load;
using testing::tiny_net;
using testing::tiny_options;
using testing::TinyData;

void expect_says(const std::string& text, const std::string& part) {
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, part, text);
}

class RunFolders : public ::testing::Test {
 protected:
  TrainOptions options(const std::string& run) {
    TrainOptions o = tiny_options(data_, "ref");
    o.out = folder(run);
    return o;
  }
  std::string folder(const std::string& run) { return (runs_.path() / run).string(); }
  std::string text_of(const std::string& file) {
    std::ifstream in(runs_.path() / file);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  TinyData data_;
  data::TemporaryFolder runs_;
};

/// A net that has too few outputs: known only when the data are open.
Tensor unfit(Tensor x) {
  return dense(x, Dense{.outputs = 9});
}

TEST_F(RunFolders, FilesThatARunWouldWriteOverAreRefusedAndKept) {
  for (const char* file : {"checkpoint.best", "config.toml", "metrics.jsonl", "plan.json"}) {
    fs::create_directory(folder(file));
    const std::string path = std::string(file) + '/' + file;
    std::ofstream(runs_.path() / path) << "by hand";
    for (auto* net : {&tiny_net, &unfit}) {
      const std::string error = error_of([&] { train(*net, options(file)); });
      expect_says(error, std::string("holds a ") + file + " already");
      expect_says(error, "choose another folder");
      EXPECT_EQ(text_of(path), "by hand");
    }
  }
  fs::create_directory(folder("run"));
  std::ofstream(folder("run") + "/checkpoint.previous") << "of a run";
  expect_says(error_of([&] { train(tiny_net, options("run")); }), "holds a run already");
}

TEST_F(RunFolders, OtherFilesInTheFolderStay) {
  fs::create_directory(folder("run"));
  std::ofstream(folder("run") + "/notes.txt") << "by hand";
  EXPECT_NE(error_of([&] { train(unfit, options("run")); }), "no error");
  EXPECT_EQ(text_of("run/notes.txt"), "by hand");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder("run")), {}), 1);
  train(tiny_net, options("run"));
  EXPECT_EQ(text_of("run/notes.txt"), "by hand");
}

TEST_F(RunFolders, ARunThatCannotBeginTakesAwayOnlyTheFolderThatItMade) {
  EXPECT_NE(error_of([&] { train(unfit, options("new")); }), "no error");
  EXPECT_FALSE(fs::exists(folder("new")));
  EXPECT_NE(error_of([&] { train(unfit, options("slash/")); }), "no error");
  EXPECT_FALSE(fs::exists(folder("slash")));
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

}  // namespace
}  // namespace crossbow
