#include "train/recipe.h"

#include <gtest/gtest.h>

#include "support/error_text.h"
#include "support/text.h"
#include "sync/sync.h"
#include "train/config.h"
#include "train/run_config.h"
#include "train/tiny_run.h"

namespace crossbow {
namespace {

using testing::error_of;
using testing::expect_says;

TrainOptions resolved(std::string_view toml) {
  TrainOptions options;
  apply_config(options, toml, "run.toml");
  return with_recipe(options, find_model(options.model).recipe);
}

std::string complaint(std::string_view toml) {
  return error_of([&] { resolve(resolved(toml), Recipe{}); });
}

/// The name of every algorithm, as a parameter of tests.
std::vector<std::string> names() {
  std::vector<std::string> names;
  for (const SyncEntry& sync : sync_catalogue()) names.emplace_back(sync.name);
  return names;
}

class SyncByName : public ::testing::TestWithParam<std::string> {};

TEST_P(SyncByName, IsEnoughForEveryModel) {
  for (const Model* model : all_models()) {
    for (const int64_t learners : {1, 2, 3}) {
      TrainOptions o;
      o.model = model->name;
      o.sync = GetParam();
      o.learners = learners;
      const TrainOptions run = with_recipe(o, model->recipe);
      EXPECT_NO_THROW(resolve(run, model->recipe)) << model->name << ", " << learners;
      EXPECT_EQ(to_config(with_recipe(run, model->recipe)), to_config(run)) << model->name;
      EXPECT_NO_THROW(resolve(resolved(to_config(run)), model->recipe)) << model->name;
    }
  }
}

TEST_P(SyncByName, Learns) {
  const testing::TinyData data(320);
  TrainOptions o;
  o.data = data.spec();
  o.device = "ref";
  o.sync = GetParam();
  o.learners = 2;
  o.threads_per_learner = 1;
  o.epochs = 40;
  const auto net = [](Tensor images) {
    return dense(relu(dense(images, Dense{.outputs = 16})), Dense{.outputs = 10});
  };
  const TrainResult r = train(net, o);
  EXPECT_GT(*r.final_test_accuracy, 0.9) << to_config(r.options);
}

INSTANTIATE_TEST_SUITE_P(Recipe, SyncByName, ::testing::ValuesIn(names()), [](const auto& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

/// Pictures that stay encoded have no size of their own.
TEST(Recipe, PicturesAreAsLargeAsTheNetIsFor) {
  for (const Model* model : all_models()) {
    if (model->recipe.data != "imagenet") continue;
    const TrainOptions o = resolved(fmt::format("model = '{}'", model->name));
    EXPECT_EQ(o.image_size, model->default_image[1]) << model->name;
  }
  EXPECT_EQ(resolved("model = 'inception-v3'\ndata = 'tar:x'").image_size, 299);
  EXPECT_EQ(resolved("model = 'inception-v3'\nimage-size = 224").image_size, 224);
  EXPECT_EQ(resolved("model = 'inception-v3'\ndata = 'imagefolder:x'").image_size, 0);
  EXPECT_EQ(resolved("model = 'inception-v3'\ndata = 'cifar10'").image_size, 0);
  EXPECT_EQ(resolved("model = 'resnet-20'\ndata = 'imagenet'").image_size, 0);
  TrainOptions older;
  older.model = "inception-v3";
  older.resume = "run";
  EXPECT_EQ(with_recipe(older, find_model(older.model).recipe).image_size, 0);
}

TEST(Recipe, GivesAnAlgorithmWhatItNeeds) {
  const TrainOptions easgd = resolved("sync = 'easgd'");
  EXPECT_EQ(easgd.momentum, 0.0);
  EXPECT_EQ(easgd.nesterov, false);
  EXPECT_EQ(easgd.lr, 0.1);  // 0.01/(1 − 0.9)
  const TrainOptions eamsgd = resolved("sync = 'eamsgd'");
  EXPECT_EQ(eamsgd.momentum, 0.9);
  EXPECT_EQ(eamsgd.nesterov, true);
  EXPECT_EQ(eamsgd.lr, 0.01);
  const TrainOptions post = resolved("sync = 'post-local-sgd'\nepochs = 4");
  EXPECT_EQ(post.lr_schedule, "multistep");
  EXPECT_EQ(post.lr_milestones, (std::vector<double>{2, 3}));
  EXPECT_EQ(post.lr_gamma, 0.1);
  const TrainOptions recipes = resolved("sync = 'post-local-sgd'\nmodel = 'resnet-20'");
  EXPECT_EQ(recipes.lr_milestones, find_model("resnet-20").recipe.lr_milestones);
}

TEST(Recipe, NoMomentumMeansTheSameWhoeverSaysIt) {
  const TrainOptions open = resolved("model = 'logistic'\ndata = 'like-w8a'");
  const TrainOptions said = resolved("model = 'logistic'\ndata = 'like-w8a'\nmomentum = 0");
  EXPECT_EQ(open.momentum, 0.0);
  EXPECT_EQ(said.lr, open.lr);
}

TEST(Recipe, AnotherScheduleHasAFactorOfItsOwn) {
  const std::string model = "model = 'mobilenet-v2'\n";
  EXPECT_EQ(resolved(model).lr_gamma, 0.98);
  EXPECT_EQ(resolved(model + "lr-schedule = 'multistep'\nlr-milestones = [2]").lr_gamma, 0.1);
}

TEST(Recipe, LeavesWhatTheUserSetAndNamesItInAConflict) {
  EXPECT_EQ(resolved("sync = 'easgd'\nlr = 0.02").lr, 0.02);
  EXPECT_EQ(resolved("sync = 'eamsgd'\nmomentum = 0.5").momentum, 0.5);
  EXPECT_EQ(resolved("sync = 'post-local-sgd'\nlr-milestones = [1]").lr_milestones,
            (std::vector<double>{1}));
  const char* out = "leave it out";
  expect_says(complaint("sync = 'easgd'\nmomentum = 0.5"), "`momentum` 0.5: the learners of easgd");
  expect_says(complaint("sync = 'easgd'\nnesterov = true"), "`nesterov`: the learners of easgd");
  expect_says(complaint("sync = 'eamsgd'\nmomentum = 0"), "`momentum` 0: the learners of eamsgd");
  expect_says(complaint("sync = 'eamsgd'\nnesterov = false"), "`nesterov` false: ");
  expect_says(complaint("sync = 'post-local-sgd'\nlr-schedule = 'cosine'"),
              "`lr-schedule` cosine: `sync` post-local-sgd changes");
  for (const char* conflict : {"sync = 'easgd'\nmomentum = 0.5", "sync = 'eamsgd'\nmomentum = 0",
                               "sync = 'eamsgd'\nnesterov = false"}) {
    expect_says(complaint(conflict), out);
  }
}

TEST(Recipe, OneLearnerAloneTakesNoOptionsOfAnExchange) {
  for (const char* option : {"sync-period = 4", "alpha = 0.1", "averaging-eta = 4"}) {
    expect_says(complaint(std::string("learners = 1\nsync = 'none'\n") + option),
                "one learner alone");
    EXPECT_EQ(complaint(std::string("learners = 2\n") + option), "no error");
  }
  expect_says(complaint("learners = 1\nsync = 'local-sgd'\nsync-period = 4"), "one learner alone");
  expect_says(complaint("learners = 1\nalpha = 0.1"), "one learner alone");
  EXPECT_EQ(complaint("learners = 1\nsync-period = 4\naveraging-eta = 4"), "no error");
  EXPECT_EQ(complaint("learners = 1\nsync = 'slowmo'\nsync-period = 4"), "no error");
}

}  // namespace
}  // namespace crossbow
