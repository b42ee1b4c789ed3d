// Configuration files that were made to do harm, or are none.
#include "core/file.h"
#include "data/files.h"
#include "support/odd_files.h"
#include "train/config.h"
#include "train/recipe.h"
#include "train/run_config.h"

namespace crossbow {
namespace {

TEST(ConfigFile, WhatIsNoFileIsRefusedByName) {
  const data::TemporaryFolder folder;
  TrainOptions options;
  for (const auto& odd : testing::odd_files(folder.path())) {
    EXPECT_ERROR(apply_config_file(options, odd.path), odd.path.string());
    EXPECT_ERROR(apply_config_file(options, odd.path), odd.reason);
  }
  const auto long_text = folder.path() / "long.toml";
  write_file_atomically(long_text, std::string((1 << 20) + 1, '\n'));
  EXPECT_ERROR(apply_config_file(options, long_text),
               "long.toml: it holds more than 1048576 bytes");
}

TEST(ConfigFile, AKeyOfManyPartsIsRefusedBeforeAnybodyRecursesIntoIt) {
  std::string parts;
  for (int i = 0; i < 50000; ++i) parts += "a.";
  TrainOptions options;
  for (const std::string& text : {parts + "a = 1", "[" + parts + "a]", "batch = 8 # " + parts}) {
    EXPECT_ERROR(apply_config(options, text, "deep.toml"), "the line has more than 1000 dots");
  }
  EXPECT_ERROR(apply_config(options, parts.substr(0, 1998) + "a = 1", "deep.toml"),
               "there is no such option");
}

/// A run must be able to read its own record.
TEST(ConfigFile, WhatCouldNotBeReadBackIsRefusedFirst) {
  TrainOptions options = with_recipe({}, find_model("lenet").recipe);
  options.lr_schedule = "multistep";
  options.lr_gamma = 0.9;
  options.lr_milestones.emplace();
  for (int i = 1; i <= 900; ++i) options.lr_milestones->push_back(i + 0.5);
  resolve(options, Recipe{});
  for (int i = 901; i <= 1099; ++i) options.lr_milestones->push_back(i + 0.5);
  EXPECT_ERROR(resolve(options, Recipe{}), "the line has more than 1000 dots");
}

}  // namespace
}  // namespace crossbow
