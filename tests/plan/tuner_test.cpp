// What is remembered of measured choices, in files that anything may have happened to.
#include "plan/tuner.h"

#include <limits>

#include "core/file.h"
#include "data/files.h"
#include "support/full_disk.h"
#include "support/odd_files.h"

namespace crossbow {
namespace {

namespace fs = std::filesystem;

class ChoicesFile : public ::testing::Test {
 protected:
  std::string error_with(const std::string& text) {
    write_file_atomically(path_, text);
    return data::error_of([&] { read_choices(path_); });
  }

  const data::TemporaryFolder folder_;
  const fs::path path_ = folder_.path() / "plan.json";
};

TEST_F(ChoicesFile, ComesBack) {
  const Choices choices{{"conv1 forward", "jit"}, {"conv2 \"x\"", "gemm"}};
  write_choices(path_, choices);
  EXPECT_EQ(read_choices(path_), choices);
  EXPECT_TRUE(read_choices(folder_.path() / "none").empty());
}

TEST_F(ChoicesFile, WhatCannotBeUsedIsRefusedByName) {
  for (const char* text : {"", "{", "[]", "7", "{\"conv\": 1}", "{\"conv\": [\"jit\"]}"}) {
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, "cannot use " + path_.string(), error_with(text));
  }
  const std::string deep(100000, '[');
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "nested more than 16 levels", error_with(deep));
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "it holds more than",
                      error_with(std::string((16 << 20) + 1, ' ')));
  for (const auto& odd : testing::odd_files(folder_.path())) {
    EXPECT_ERROR(read_choices(odd.path), odd.path.string());
    EXPECT_ERROR(read_choices(odd.path), odd.reason);
  }
}

TEST_F(ChoicesFile, AFullDiskLeavesTheOldOne) {
  write_choices(path_, {{"key", "old"}});
  const Choices large{{"key", std::string(10000, 'x')}};
  {
    const testing::FullDisk full(100);
    EXPECT_ERROR(write_choices(path_, large), "cannot write " + path_.string());
    Tuner tuner(path_);
    tuner.remember("other", std::string(10000, 'x'));
  }
  EXPECT_EQ(read_choices(path_), (Choices{{"key", "old"}}));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), {}), 1);
}

TEST_F(ChoicesFile, IsSavedOrNot) {
  Tuner kept(path_), lost(path_ / "below");
  EXPECT_TRUE(lost.save()) << "there is nothing to save";
  kept.remember("key", "choice");
  lost.remember("key", "choice");
  EXPECT_TRUE(kept.save());
  EXPECT_FALSE(lost.save());
  EXPECT_FALSE(lost.save());
  EXPECT_EQ(read_choices(path_), (Choices{{"key", "choice"}}));
}

TEST_F(ChoicesFile, ACacheThatCannotBeUsedIsLikeNone) {
  auto caches = testing::odd_files(folder_.path());
  caches.push_back({folder_.path() / "damaged", ""});
  write_file_atomically(caches.back().path, "{\"key\":");
  for (const auto& odd : caches) {
    Tuner tuner(odd.path);
    EXPECT_FALSE(tuner.recall("key")) << odd.path;
    tuner.remember("key", "choice");
    EXPECT_EQ(tuner.recall("key"), "choice");
  }
  for (const auto& entry : fs::directory_iterator(folder_.path())) {
    EXPECT_NE(entry.path().extension(), ".tmp");
  }
  EXPECT_EQ(Tuner(folder_.path() / "damaged").recall("key"), "choice");
}

/// A candidate that has too little memory now may be the best another time.
TEST(Tuner, ForgetsAChoiceOfWhichNotAllCouldBeTried) {
  Tuner tuner{fs::path()};
  const std::vector<std::string> names{"large", "small"};
  const auto choose = [&](double seconds_of_large) {
    return tuner.choose("layer", names, [&](size_t i) { return i == 0 ? seconds_of_large : 2; });
  };
  EXPECT_EQ(choose(std::numeric_limits<double>::infinity()), 1u);
  EXPECT_EQ(choose(1), 0u);
  EXPECT_EQ(choose(3), 0u);
}

TEST(Tuner, GivesUpWithoutTimingAnyMore) {
  int timed = 0;
  std::vector<int64_t> asked;
  Tuner tuner({}, [&](int64_t before) {
    asked.push_back(before);
    return before >= 5;
  });
  const std::vector<std::string> names{"slow", "fast"};
  const auto choose = [&](const std::string& key) {
    return tuner.choose(key, names, [&](size_t i) { return ++timed, i == 0 ? 2.0 : 1.0; });
  };
  EXPECT_EQ(choose("first"), 1u);
  EXPECT_EQ(choose("second"), 0u);
  EXPECT_EQ(choose("third"), 0u);
  EXPECT_EQ(choose("first"), 1u);
  EXPECT_EQ(timed, 5);
  EXPECT_EQ(asked, (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 5}));
  EXPECT_EQ(tuner.choices(), (Choices{{"first", "fast"}}));
}

}  // namespace
}  // namespace crossbow
