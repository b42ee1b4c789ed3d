#include "train/config.h"

#include <gtest/gtest.h>

#include "models/model.h"
#include "support/error_text.h"
#include "train/recipe.h"
#include "train/run_config.h"

namespace crossbow {
namespace {

using crossbow::testing::error_of;
using ::testing::Test;

TrainOptions from(std::string_view toml) {
  TrainOptions options;
  apply_config(options, toml, "run.toml");
  return options;
}

std::string config_error(std::string_view toml) {
  return error_of([&] { from(toml); });
}

/// What is wrong with the options as a run would use them.
std::string complaint(std::string_view toml) {
  return error_of([&] {
    const TrainOptions options = from(toml);
    resolve(options, find_model(options.model).recipe);
  });
}

#define EXPECT_SAYS(text, part) EXPECT_PRED_FORMAT2(::testing::IsSubstring, part, text)

TEST(Config, ReadsEveryKindOfValue) {
  const TrainOptions o = from(R"(
    model = "resnet-20"
    batch = 32
    lr = 1
    lr-milestones = [80, 120.5]
    nesterov = true
    mirror = false
    seed = 9
    learners = "auto"
    worker = ["live:threads=2", "replica"]
    freeze = ["conv", "stage[12]"]
  )");
  EXPECT_EQ(o.model, "resnet-20");
  EXPECT_EQ(o.batch, 32);
  EXPECT_EQ(o.lr, 1.0);
  EXPECT_EQ(o.lr_milestones, (std::vector<double>{80, 120.5}));
  EXPECT_EQ(o.nesterov, true);
  EXPECT_EQ(o.mirror, false);
  EXPECT_EQ(o.seed, 9u);
  EXPECT_FALSE(o.learners);
  EXPECT_EQ(o.worker, "live:threads=2 replica");
  EXPECT_EQ(o.freeze, "conv|stage[12]");
  EXPECT_FALSE(o.epochs);
}

TEST(Config, ReadsWhatItWrites) {
  TrainOptions o = with_recipe({}, find_model("resnet-20").recipe);
  o.data = "mnist:a folder/with \"quotes\"\n";
  o.lr = 0.1 + 0.2;
  o.clip_norm = 1e-30;
  o.seed = (uint64_t{1} << 63) - 1;
  const std::string text = to_config(o);
  const TrainOptions again = from(text);
  EXPECT_EQ(to_config(again), text);
  EXPECT_EQ(again.lr, o.lr);
  EXPECT_EQ(again.data, o.data);
  EXPECT_EQ(again.seed, o.seed);
}

TEST(Config, NamesTheNearestKeyAndTheLine) {
  EXPECT_SAYS(config_error("\nlearner = 1\nmomentun = 0.9"), "did you mean 'learners'");
  EXPECT_EQ(config_error("batch = 4\nmomentun = 0.9"),
            "run.toml:2: momentun: there is no such option; did you mean 'momentum'?");
}

TEST(Config, RefusesWrongKinds) {
  EXPECT_SAYS(config_error("batch = 'many'"), "run.toml:1: batch: 'many' is not a whole number");
  EXPECT_SAYS(config_error("batch = 1.5"), "not a whole number");
  EXPECT_SAYS(config_error("batch = 99999999999999999999"), "run.toml:1");
  EXPECT_SAYS(config_error("lr = nan"), "not a finite number");
  EXPECT_SAYS(config_error("seed = -1"), "negative");
  EXPECT_SAYS(config_error("nesterov = 1"), "not true or false");
  EXPECT_SAYS(config_error("lr-milestones = ['a']"), "numbers only");
  EXPECT_SAYS(config_error("worker = ['live', 3]"), "strings only");
  EXPECT_SAYS(config_error("freeze = [1, 2]"), "strings only");
  EXPECT_SAYS(config_error("[model]\nname = 'lenet'"), "neither a number");
  EXPECT_SAYS(config_error("model = "), "run.toml:1");
  EXPECT_SAYS(config_error("sync-period = 1.5"), "not a whole number");
}

TEST(Config, RefusesTextThatAFileCouldNotHold) {
  TrainOptions o;
  const auto error_with = [&](const char* text) {
    return error_of([&] { set_option(o, *find_option("out"), text); });
  };
  EXPECT_SAYS(error_with("a\xff"), "not UTF-8 text");
  EXPECT_SAYS(error_with("\xc3"), "not UTF-8 text");
  EXPECT_SAYS(error_with("\x7f"), "a delete character");
  EXPECT_NO_THROW(set_option(o, *find_option("out"), "Läufe/7"));
}

TEST(Config, RecipesFillWhatIsOpen) {
  Recipe recipe;
  recipe.data = "cifar10";
  recipe.epochs = 160;
  recipe.lr = 0.1;
  recipe.lr_schedule = "multistep";
  recipe.lr_milestones = {80, 120};
  recipe.pad = 4;
  TrainOptions o;
  o.lr = 0.3;
  o = with_recipe(o, recipe);
  EXPECT_EQ(o.lr, 0.3);
  EXPECT_EQ(o.data, "cifar10");
  EXPECT_EQ(o.epochs, 160);
  EXPECT_EQ(o.lr_milestones, recipe.lr_milestones);
  EXPECT_EQ(o.pad, 4);
  EXPECT_FALSE(o.learners);  // the program's choice
  EXPECT_FALSE(o.target_accuracy);
}

TEST(Config, PicturesThatStayEncodedAreCutAtRandom) {
  Recipe recipe;
  recipe.data = "cifar10";
  recipe.pad = 4;
  const auto resolved = [&](const std::string& toml) { return with_recipe(from(toml), recipe); };
  EXPECT_EQ(resolved("").crop, "pad");
  EXPECT_EQ(resolved("pad = 0").crop, "none");
  EXPECT_EQ(resolved("crop = 'none'").pad, 0);
  EXPECT_EQ(resolved("data = 'imagefolder:x'").crop, "pad");
  for (const char* set : {"imagenet:x", "tfrecord:x", "tar:x"}) {
    const TrainOptions o = resolved(fmt::format("data = '{}'", set));
    EXPECT_EQ(o.crop, "resized");
    EXPECT_EQ(o.crop_area, 0.08);
    EXPECT_EQ(o.pad, 0);
    EXPECT_EQ(resolved(fmt::format("data = '{}'\npad = 8", set)).crop, "pad");
  }
  const RunConfig run = resolve(from("data = 'imagefolder:x'\ncrop = 'resized'"), recipe);
  EXPECT_EQ(run.augment.least_area, 0.08);
  EXPECT_EQ(run.centre, 0.875);
  EXPECT_EQ(resolve(from(""), recipe).centre, 1);
}

TEST(Config, AnotherScheduleDropsTheRecipesMilestones) {
  const TrainOptions o = from("model = 'resnet-20'\nlr-schedule = 'cosine'");
  EXPECT_FALSE(with_recipe(o, find_model("resnet-20").recipe).lr_milestones);
}

TEST(Config, EveryRecipeIsValid) {
  for (const Model* model : all_models()) {
    EXPECT_NO_THROW(resolve({}, model->recipe)) << model->name;
  }
}

TEST(Config, RefusesWhatMakesNoSense) {
  EXPECT_SAYS(complaint("batch = 0"), "`batch` 0");
  EXPECT_SAYS(complaint("lr = 0"), "`lr` 0: it must be above 0");
  EXPECT_SAYS(complaint("momentum = 1"), "`momentum` 1: it must be below 1");
  EXPECT_SAYS(complaint("momentum = -0.1"), "at least 0");
  EXPECT_SAYS(complaint("loss = 'bce'"), "`loss` bce: this version knows cross-entropy, sigmoid");
  EXPECT_SAYS(complaint("label-smoothing = 1"), "`label-smoothing` 1: it must be at least 0 and");
  EXPECT_SAYS(complaint("label-smoothing = -0.1"), "at least 0 and below 1");
  EXPECT_SAYS(complaint("label-smoothing = 0.99999999999"), "below 1");
  EXPECT_SAYS(complaint("loss = 'mse'\nlabel-smoothing = 0.1"),
              "`label-smoothing` 0.1: `loss` mse smooths no labels; leave it out");
  EXPECT_EQ(complaint("loss = 'sigmoid'"), "no error");
  EXPECT_EQ(complaint("label-smoothing = 0.1"), "no error");
  EXPECT_SAYS(complaint("momentum = 0\nnesterov = true"), "`nesterov` needs");
  EXPECT_SAYS(complaint("target-accuracy = 98"), "a fraction");
  EXPECT_SAYS(complaint("epochs = 0"), "`epochs` 0");
  EXPECT_SAYS(complaint("precision = 'f16'"), "did you mean 'bf16'");
  EXPECT_SAYS(complaint("device = 'ref'\nprecision = 'bf16'"), "f32 only");
  EXPECT_SAYS(complaint("optimizer = 'adam'"), "knows sgd");
  EXPECT_SAYS(complaint("lr-schedule = 'multistep'"), "`lr-milestones`");
  EXPECT_SAYS(complaint("lr-schedule = 'multistep'\nlr-milestones = [3, 2]"), "ascend");
  EXPECT_SAYS(complaint("lr-schedule = 'step'\nlr-milestones = [3, 4]"), "one number");
  EXPECT_SAYS(complaint("lr-gamma = 0.5"), "does not drop");
  for (const std::string sync : {"sma", "hogbatch"}) {
    EXPECT_SAYS(complaint("lr-scaling = 'squrt'\nsync = '" + sync + "'"),
                "`lr-scaling` squrt: this version knows none, linear, sqrt, adascale");
  }
  EXPECT_SAYS(complaint("learners = 2\nsync = 'none'"), "`learners` 2: say how they are to agree");
  EXPECT_SAYS(complaint("learners = 2\nsync = 'sma'\nalpha = 2"), "drift apart");
  EXPECT_SAYS(complaint("sync = 'post-local-sgd'\nlr-schedule = 'fixed'"), "never does");
  EXPECT_SAYS(complaint("threads-per-learner = 0"), "at least 1");
  EXPECT_SAYS(complaint("data = 'mnist'\nimage-size = 64"),
              "`image-size` 64: only pictures are scaled");
  EXPECT_EQ(complaint("data = 'imagefolder:x'\nimage-size = 64"), "no error");
  EXPECT_SAYS(complaint("data = 'imagenet:x'\nimage-size = 4097"), "`image-size` 4097");
  EXPECT_SAYS(complaint("crop = 'centre'"), "`crop` centre: this version knows none, pad, resized");
  EXPECT_SAYS(complaint("data = 'mnist'\ncrop = 'resized'"), "mnist has images of one size");
  EXPECT_SAYS(complaint("crop = 'pad'\npad = 0"), "`crop` pad: there is no border");
  EXPECT_SAYS(complaint("crop = 'none'\npad = 4"), "`pad` 4: `crop` none has no border");
  EXPECT_SAYS(complaint("data = 'imagenet:x'\ncrop = 'resized'\npad = 4"),
              "`pad` 4: `crop` resized");
  EXPECT_SAYS(complaint("crop-area = 0.1"), "only `crop` resized has it");
  EXPECT_SAYS(complaint("data = 'imagenet:x'\ncrop-area = 0"), "more than 0 and at most 1");
  EXPECT_SAYS(complaint("shuffle-block = -1"), "at least 0");
}

TEST(Config, AResumedRunMayOnlyGoOnLonger) {
  const TrainOptions before = with_recipe({}, find_model("lenet").recipe);
  TrainOptions now = before;
  now.epochs = *before.epochs + 10;
  now.target_accuracy = 0.99;
  EXPECT_NO_THROW(check_same_run(before, now, "resume"));
  now.batch = 32;
  EXPECT_SAYS(error_of([&] { check_same_run(before, now, "resume"); }), "`batch` 32");
}

}  // namespace
}  // namespace crossbow
