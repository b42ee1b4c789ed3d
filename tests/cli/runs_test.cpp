// `crossbow runs`, `--version` and what `train` tells of patience and of the best checkpoint.
#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/program.h"

namespace crossbow {
namespace {

using nlohmann::json;
using testing::expect_says;

class Runs : public testing::ProgramTest {};

TEST_F(Runs, AreComparedByWhatDiffers) {
  EXPECT_EQ(crossbow("runs").code, 1);  // there are none
  ASSERT_EQ(crossbow(tiny("--out runs/slow --lr 1e-9")).code, 0);
  ASSERT_EQ(crossbow(tiny("--out runs/good --lr 0.05 --epochs 3")).code, 0);
  std::filesystem::create_directories(path("runs/no-run"));
  const json trained = json::parse(crossbow("train --resume runs/good --json").out);
  const Outcome o = crossbow("runs --json");
  ASSERT_EQ(o.code, 0) << o.err;
  const json runs = json::parse(o.out)["runs"];
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[0]["run"], "runs/good");
  EXPECT_EQ(runs[0]["settings"], (json{{"lr", "0.05"}, {"epochs", "3"}}));
  EXPECT_EQ(runs[0]["epochs"], 3);
  EXPECT_EQ(runs[0]["best_test_accuracy"], trained["best_test_accuracy"]);
  EXPECT_EQ(runs[0]["final_test_accuracy"], trained["final_test_accuracy"]);
  EXPECT_EQ(runs[0]["train_seconds"], trained["train_seconds"]);
  EXPECT_EQ(runs[0]["images_per_second"], trained["images_per_second"]);
  EXPECT_TRUE(runs[0]["problem"].is_null());
  EXPECT_EQ(runs[1]["settings"]["lr"], "1e-09");

  const Outcome text = crossbow("runs runs/slow runs/good");
  expect_says(text.out, "settings that differ");
  expect_says(text.out, "lr 0.05");
  EXPECT_LT(text.out.find("runs/good"), text.out.find("runs/slow"));
}

TEST_F(Runs, ListThoseThatAreDamagedWithAWord) {
  ASSERT_EQ(crossbow(tiny("--out runs/a")).code, 0);
  std::filesystem::copy(path("runs/a"), path("runs/cut"), std::filesystem::copy_options::recursive);
  std::filesystem::copy(path("runs/a"), path("runs/none"),
                        std::filesystem::copy_options::recursive);
  const auto size = std::filesystem::file_size(path("runs/cut/checkpoint"));
  std::filesystem::resize_file(path("runs/cut/checkpoint"), size - 1);
  for (const char* file : {"checkpoint", "checkpoint.previous"}) {
    std::filesystem::remove(path("runs/none") / file);
  }
  const Outcome o = crossbow("runs --json");
  ASSERT_EQ(o.code, 0) << o.err;
  const json runs = json::parse(o.out)["runs"];
  ASSERT_EQ(runs.size(), 3u);
  EXPECT_EQ(runs[1]["run"], "runs/cut");
  EXPECT_EQ(runs[1]["epochs"], 1);
  expect_says(runs[1]["problem"].get<std::string>(), "using the checkpoint before it");
  EXPECT_EQ(runs[2]["run"], "runs/none");
  EXPECT_EQ(runs[2]["model"], "logistic");
  expect_says(runs[2]["problem"].get<std::string>(), "holds no checkpoint");
  EXPECT_EQ(crossbow("runs nowhere").code, 1);
}

TEST_F(Runs, TrainTellsOfPatienceAndOfTheBestCheckpoint) {
  const Outcome o = crossbow(tiny("--epochs 90 --patience 2 --keep-best --out run"));
  ASSERT_EQ(o.code, 0) << o.err;
  expect_says(o.out, "  stopped   after 2 evaluations without a better test accuracy");
  const json j = json::parse(crossbow("train --resume run --json").out);
  const int best = j["best_epoch_kept"];
  expect_says(o.out, "  best      epoch " + std::to_string(best) + ", kept as run/checkpoint.best");
  EXPECT_EQ(j["epochs"], best + 2);
  EXPECT_EQ(j["stopped_early"], true);
  EXPECT_EQ(j["best_checkpoint"], "run/checkpoint.best");
  EXPECT_EQ(json::parse(crossbow("eval run/checkpoint.best --json").out)["test_accuracy"],
            j["best_test_accuracy"]);

  const json longer = json::parse(crossbow("train --resume run --patience 4 --json").out);
  EXPECT_GE(longer["epochs"], best + 4);
  const json plain = json::parse(crossbow(tiny("--json")).out);
  EXPECT_EQ(plain["stopped_early"], false);
  EXPECT_TRUE(plain["best_checkpoint"].is_null());
  EXPECT_EQ(crossbow(tiny("--patience 0")).code, 2);
}

TEST_F(Runs, VersionTellsWhatItIsBuiltWith) {
  const Outcome o = crossbow("--version");
  EXPECT_EQ(o.code, 0);
  const std::string first = o.out.substr(0, o.out.find('\n'));
  EXPECT_EQ(first.rfind("crossbow ", 0), 0u) << first;
  EXPECT_EQ(std::count(first.begin(), first.end(), '.'), 2) << first;
  expect_says(o.out, "\ncompiler  ");
  expect_says(o.out, "\noneDNN    ");
  expect_says(o.out, "\nloops     ");
}

}  // namespace
}  // namespace crossbow
