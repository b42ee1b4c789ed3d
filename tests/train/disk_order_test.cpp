// What a run has on disk before what counts on it: as a power cut would find it.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "support/disk_calls.h"
#include "train/checkpoints.h"
#include "train/scripted_search.h"

namespace crossbow {
namespace {

namespace fs = std::filesystem;
using testing::DiskCall;
using testing::load;

/// Those of `calls` that rename something to `file`.
std::vector<size_t> renames(const std::vector<DiskCall>& calls, const std::string& file) {
  std::vector<size_t> places;
  for (size_t i = 0; i < calls.size(); ++i) {
    if (calls[i].name == "rename" && fs::path(calls[i].path).filename() == file) {
      places.push_back(i);
    }
  }
  return places;
}

/// How many bytes of `file` were on disk before calls[end].
int64_t synced(const std::vector<DiskCall>& calls, const std::string& file, size_t end) {
  int64_t bytes = 0;
  for (size_t i = 0; i < end; ++i) {
    if (calls[i].name == "sync file" && fs::path(calls[i].path).filename() == file) {
      bytes = calls[i].bytes;
    }
  }
  return bytes;
}

class DiskOrder : public testing::ScriptedSearch {
 protected:
  std::vector<DiskCall> calls_of(int64_t epochs) {
    Observer silent;
    return testing::disk_calls(
        [&] { run(options("run", epochs), testing::kTwoAreFaster, silent); });
  }
};

TEST_F(DiskOrder, TheLinesThatACheckpointCountsComeBeforeIt) {
  const auto calls = calls_of(3);
  const auto saved = renames(calls, "checkpoint");
  ASSERT_EQ(saved.size(), 4u);
  EXPECT_LT(saved[0], renames(calls, "config.toml").at(0));
  const std::string changes = lines("run");
  const auto expect_lines = [&](const std::string& checkpoint, size_t place) {
    const Checkpoint c = load(folder("run") + '/' + checkpoint);
    EXPECT_GT(c.metrics_bytes, 0);
    EXPECT_EQ(synced(calls, "metrics.jsonl", place), c.metrics_bytes);
    EXPECT_GT(c.position.changes, 0);
    const std::string on_disk =
        changes.substr(0, static_cast<size_t>(synced(calls, "learners.jsonl", place)));
    EXPECT_EQ(std::count(on_disk.begin(), on_disk.end(), '\n'), c.position.changes);
  };
  expect_lines("checkpoint.previous", saved[2]);
  expect_lines("checkpoint", saved[3]);
}

TEST(LearnerLogOrder, ALineAndTheNewFilesNameAreOnDiskWhenTheCallReturns) {
  const data::TemporaryFolder folder;
  const fs::path path = folder.path() / "learners.jsonl";
  LearnerLog log(path);
  const auto calls = testing::disk_calls([&] { log.append({1, 2, {2, 1}, false}); });
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_EQ(calls[0].name, "sync folder");
  EXPECT_EQ(calls[0].path, folder.path().string());
  EXPECT_EQ(calls[1].name, "sync file");
  EXPECT_EQ(calls[1].path, path.string());
  EXPECT_EQ(calls[1].bytes, static_cast<int64_t>(fs::file_size(path)));
}

TEST(LearnerLogOrder, ADroppedLineIsGoneFromDiskWhenTheCallReturns) {
  const data::TemporaryFolder folder;
  const fs::path path = folder.path() / "learners.jsonl";
  std::ofstream(path) << "half a li";
  LearnerLog log(path);
  const auto calls = testing::disk_calls([&] { log.read([](std::string_view) {}); });
  ASSERT_FALSE(calls.empty());
  EXPECT_EQ(calls.back().name, "sync file");
  EXPECT_EQ(calls.back().bytes, 0);
}

/// The plan is written again where a change takes effect.
TEST_F(DiskOrder, AChangeOfLearnersComesBeforeItsEffect) {
  const auto calls = calls_of(20);
  const auto planned = renames(calls, "plan.json");
  ASSERT_GE(planned.size(), 2u);
  const std::string all = lines("run");
  const std::string before =
      all.substr(0, static_cast<size_t>(synced(calls, "learners.jsonl", planned[1])));
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "\"learners\":2", before) << all;
}

}  // namespace
}  // namespace crossbow
