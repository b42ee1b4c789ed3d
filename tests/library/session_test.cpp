// What the header of Session says of it.
#include <crossbow/crossbow.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>

#include "small_net.h"

namespace {

using crossbow::Session;
using crossbow::SessionOptions;
using crossbow::UsageError;
using small_net::kBatch;
using small_net::kClasses;

namespace fs = std::filesystem;

template <typename Call>
std::string error_of(Call call) {
  try {
    call();
  } catch (const crossbow::Error& e) {
    return e.what();
  }
  return "no error";
}

/// Of the test that runs; gone with it.
class Folder {
 public:
  Folder()
      : path_(fs::path(testing::TempDir()) /
              ("crossbow-" + std::to_string(getpid()) + '-' +
               testing::UnitTest::GetInstance()->current_test_info()->name())) {
    fs::remove_all(path_);
  }
  ~Folder() { fs::remove_all(path_); }
  const fs::path& path() const { return path_; }

 private:
  const fs::path path_;
};

/// 30 training and 12 test samples: the last batch of an epoch is smaller than the others.
std::shared_ptr<const crossbow::data::Dataset> dataset() {
  small_net::Batch train, test;
  for (int64_t step = 0; step < 6; ++step) {
    const small_net::Batch b = small_net::batch(step);
    small_net::Batch& to = step < 4 ? train : test;
    to.images.insert(to.images.end(), b.images.begin(), b.images.end());
    to.labels.insert(to.labels.end(), b.labels.begin(), b.labels.end());
  }
  const size_t elements = train.images.size() / train.labels.size();
  train.labels.resize(30);
  test.labels.resize(12);
  train.images.resize(30 * elements);
  test.images.resize(12 * elements);
  return crossbow::data::from_memory(
      {.image = {small_net::kChannels, small_net::kSide, small_net::kSide}, .classes = kClasses},
      {train.images, train.labels}, {test.images, test.labels});
}

/// All values of a session's tensors.
std::vector<float> values_of(const Session& session) {
  std::vector<float> all;
  for (const auto& tensor : session.tensors()) {
    const auto values = session.get(tensor.name);
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

crossbow::TrainOptions run_options() {
  crossbow::TrainOptions o;
  o.dataset = dataset();
  o.batch = kBatch;
  o.learners = 1;
  o.sync = "none";
  o.deterministic = true;
  o.epochs = 3;
  o.lr = 0.05;
  o.momentum = small_net::kMomentum;
  o.weight_decay = small_net::kWeightDecay;
  return o;
}

SessionOptions like_the_run() {
  SessionOptions o = small_net::options("cpu");
  o.image = {};
  o.classes = 0;
  o.dataset = dataset();
  o.lr = 0.05;
  return o;
}

TEST(Session, SaysWhatTensorsThereAre) {
  const Session session(small_net::logits, small_net::options("cpu"));
  std::vector<std::string> names;
  for (const auto& t : session.tensors()) {
    names.push_back(t.name + " " + t.shape.str() + (t.trained ? "" : " state"));
  }
  EXPECT_EQ(names,
            (std::vector<std::string>{
                "conv1.weight [6, 2, 3, 3]", "norm1.weight [6]", "norm1.bias [6]",
                "conv2.weight [4, 6, 3, 3]", "conv2.bias [4]", "dense.weight [5, 4]",
                "dense.bias [5]", "norm1.running_mean [6] state", "norm1.running_var [6] state"}));
}

TEST(Session, GivesBackTheWeightsThatWereSet) {
  Session session(small_net::logits, small_net::options("cpu"));
  const auto weights = small_net::first_weights(0, 108);
  const auto before = session.get("conv2.weight");
  session.set("conv1.weight", weights);
  EXPECT_EQ(session.get("conv1.weight"), weights);
  EXPECT_EQ(session.get("conv2.weight"), before);
}

/// `set` sets options that both have.
template <typename Set>
void expect_the_steps_of_train(Set set) {
  Folder folder;
  auto o = run_options();
  set(o);
  o.out = folder.path().string();
  const auto result = crossbow::train(small_net::logits, o);
  auto like_it = like_the_run();
  set(like_it);
  Session session(small_net::logits, like_it);
  double losses = 0;
  for (int step = 0; step < 12; ++step) {
    const double loss = static_cast<double>(session.step());
    if (step >= 8) losses += loss * (step == 11 ? 6 : 8) / 30;
  }
  EXPECT_DOUBLE_EQ(losses, result.history.back().train_loss);
  const auto evaluation = session.evaluate();
  EXPECT_NEAR(evaluation.loss, *result.final_test_loss, 1e-6);
  EXPECT_EQ(evaluation.accuracy, *result.final_test_accuracy);

  Session loaded(small_net::logits, like_it);
  loaded.load(folder.path());
  EXPECT_EQ(values_of(loaded), values_of(session));
}

TEST(Session, ADatasetsStepsAreThoseOfTrain) {
  expect_the_steps_of_train([](auto&) {});
}

TEST(Session, ClippedStepsAreThoseOfTrain) {
  expect_the_steps_of_train([](auto& o) { o.clip_norm = 0.05; });
}

TEST(Session, StepsByAnotherLossAreThoseOfTrain) {
  expect_the_steps_of_train([](auto& o) { o.loss = "sigmoid"; });
  expect_the_steps_of_train([](auto& o) { o.loss = "mse"; });
  expect_the_steps_of_train([](auto& o) { o.label_smoothing = 0.2; });
}

/// Of logits that are all 0, a guess has the loss that a table would give.
TEST(Session, StepsByTheLossThatWasChosen) {
  const auto first_loss = [](const char* loss) {
    auto o = small_net::options("cpu");
    o.loss = loss;
    Session session(small_net::logits, o);
    for (const char* name : {"dense.weight", "dense.bias"}) {
      session.set(name, std::vector<float>(session.get(name).size()));
    }
    const auto batch = small_net::batch(0);
    return session.step(batch.images, batch.labels);
  };
  EXPECT_NEAR(first_loss("cross-entropy"), std::log(5), 1e-5);
  EXPECT_NEAR(first_loss("sigmoid"), std::log(2), 1e-5);
  EXPECT_NEAR(first_loss("mse"), 0.2, 1e-5);
}

TEST(Session, ClipsTheGradient) {
  auto o = small_net::options("cpu");
  o.lr = 1;
  o.momentum = 0;
  o.weight_decay = 0;
  o.clip_norm = 0.01;
  Session session(small_net::logits, o);
  const auto moved = [&](const small_net::Batch& b) {
    double squares = 0;
    std::vector<std::vector<float>> before;
    for (const char* name : small_net::parameters()) before.push_back(session.get(name));
    session.step(b.images, b.labels);
    for (size_t p = 0; p < before.size(); ++p) {
      const auto after = session.get(small_net::parameters()[p]);
      for (size_t i = 0; i < after.size(); ++i) {
        squares += std::pow(static_cast<double>(after[i]) - static_cast<double>(before[p][i]), 2);
      }
    }
    return std::sqrt(squares);
  };
  for (int64_t step = 0; step < 3; ++step) EXPECT_NEAR(moved(small_net::batch(step)), 0.01, 1e-5);
}

TEST(Session, EvaluatesAnyNumberOfImages) {
  Session session = small_net::session("cpu");
  small_net::train(session);
  small_net::Batch all;
  double loss = 0, right = 0;
  for (int64_t step = 0; step < 9; ++step) {
    const auto b = small_net::batch(step);
    all.images.insert(all.images.end(), b.images.begin(), b.images.end());
    all.labels.insert(all.labels.end(), b.labels.begin(), b.labels.end());
    const auto e = session.evaluate(b.images, b.labels);
    loss += e.loss / 9;
    right += *e.accuracy / 9;
  }
  const auto whole = session.evaluate(all.images, all.labels);
  EXPECT_NEAR(whole.loss, loss, 1e-6);
  EXPECT_NEAR(*whole.accuracy, right, 1e-9);
}

/// Their softmax gives the loss that evaluate() says.
TEST(Session, PredictsLogits) {
  Session session = small_net::session("cpu");
  small_net::train(session);
  const auto b = small_net::batch(3);
  const std::vector<float> logits = session.predict(b.images);
  ASSERT_EQ(logits.size(), static_cast<size_t>(kBatch * kClasses));
  double loss = 0;
  for (size_t i = 0; i < kBatch; ++i) {
    double sum = 0;
    for (size_t c = 0; c < kClasses; ++c)
      sum += std::exp(static_cast<double>(logits[i * kClasses + c]));
    const auto label = static_cast<size_t>(b.labels[i]);
    loss += std::log(sum) - static_cast<double>(logits[i * kClasses + label]);
  }
  EXPECT_NEAR(session.evaluate(b.images, b.labels).loss, loss / kBatch, 1e-6);

  const size_t elements = b.images.size() / kBatch;
  const std::vector<float> one = session.predict(std::span(b.images).subspan(elements, elements));
  ASSERT_EQ(one.size(), static_cast<size_t>(kClasses));
  for (size_t c = 0; c < kClasses; ++c) EXPECT_NEAR(one[c], logits[kClasses + c], 1e-5);
}

TEST(Session, EvaluationLeavesTheTrainingAlone) {
  Session a = small_net::session("cpu"), b = small_net::session("cpu");
  for (int64_t step = 0; step < 4; ++step) {
    const auto batch = small_net::batch(step);
    EXPECT_EQ(a.step(batch.images, batch.labels), b.step(batch.images, batch.labels));
    b.evaluate(batch.images, batch.labels);
    b.predict(batch.images);
  }
  EXPECT_EQ(values_of(a), values_of(b));
}

TEST(Session, ReadsWhatItSaved) {
  Folder folder;
  Session session = small_net::session("cpu");
  small_net::train(session);
  session.save(folder.path() / "deep");
  Session again(small_net::logits, small_net::options("cpu"));
  const auto batch = small_net::batch(0);
  again.step(batch.images, batch.labels);  // its momentum is to go
  again.load(folder.path() / "deep");
  EXPECT_EQ(values_of(again), values_of(session));

  Session third(small_net::logits, small_net::options("cpu"));
  third.load(folder.path() / "deep");
  again.step(batch.images, batch.labels);
  third.step(batch.images, batch.labels);
  EXPECT_EQ(values_of(again), values_of(third));
}

TEST(Session, RefusesTheCheckpointOfAnotherNetAndStaysAsItWas) {
  Folder folder;
  Session("logistic", {.image = {1, 4, 4}, .classes = 2, .deterministic = true})
      .save(folder.path());
  Session session = small_net::session("cpu");
  const auto before = values_of(session);
  EXPECT_EQ(error_of([&] { session.load(folder.path()); }),
            folder.path().string() + "/checkpoint holds no conv1.weight: it is of another net");
  EXPECT_EQ(values_of(session), before);
}

TEST(Session, SavesNoWeightsThatAreNotNumbers) {
  Folder folder;
  Session session(small_net::logits, small_net::options("cpu"));
  session.set("dense.bias", std::vector<float>(5, std::numeric_limits<float>::infinity()));
  EXPECT_EQ(error_of([&] { session.save(folder.path()); }),
            "the weights are infinite or NaN, so that there is nothing to save: try a lower rate");
  EXPECT_FALSE(fs::exists(folder.path()));
}

TEST(Session, NamesWhatDoesNotFit) {
  Session session(small_net::logits, small_net::options("cpu"));
  const auto batch = small_net::batch(0);
  const std::span images(batch.images);
  auto labels = batch.labels;
  EXPECT_EQ(error_of([&] { session.get("conv1.weights"); }),
            "the net has no tensor 'conv1.weights' among its 9; did you mean 'conv1.weight'?");
  EXPECT_EQ(error_of([&] { session.set("dense.weight", std::vector<float>(21)); }),
            "dense.weight has shape [5, 4], which is 20 values, but 21 were given");
  EXPECT_EQ(error_of([&] { session.step(images.first(1000), labels); }),
            "1000 values are not a whole number of images of shape [2, 8, 8], which have 128 each");
  EXPECT_EQ(error_of([&] { session.step(images.first(512), labels); }),
            "a step takes images of shape [8, 2, 8, 8], as batch says, not [4, 2, 8, 8]");
  EXPECT_EQ(error_of([&] { session.step(images, std::span(labels).first(7)); }),
            "images of shape [8, 2, 8, 8] need 8 labels, not 7");
  labels[3] = kClasses;
  EXPECT_EQ(error_of([&] { session.step(images, labels); }),
            "label 3 is 5, but the net has the classes 0 to 4");
  EXPECT_EQ(error_of([&] { session.step(); }),
            "the session has no data set: give the images, or set data or dataset");
  EXPECT_EQ(error_of([&] { session.set_lr(0); }), "a rate of 0: it must be above 0");
}

TEST(Session, RefusesOptionsThatMakeNoSense) {
  const auto made = [](auto change) {
    SessionOptions o = small_net::options("cpu");
    change(o);
    return error_of([&] { Session(small_net::logits, o); });
  };
  EXPECT_EQ(made([](SessionOptions& o) {
              o.image = {8, 8};
            }),
            "a session without a data set needs the shape of an image, [channels, height, width], "
            "and a number of classes, not [8, 8] and 5");
  EXPECT_EQ(made([](SessionOptions& o) { o.dataset = dataset(); }),
            "image and classes are those of the data set: leave them out");
  EXPECT_EQ(made([](SessionOptions& o) { o.momentum = 1; }), "`momentum` 1: it must be below 1");
  EXPECT_NE(made([](SessionOptions& o) {
              o.threads_per_learner = 5000;
            }).find("`threads-per-learner` 5000: on cpu a learner can have "),
            std::string::npos);
  EXPECT_EQ(made([](SessionOptions& o) { o.loss = "msee"; }),
            "`loss` msee: this version knows cross-entropy, sigmoid, mse; did you mean 'mse'?");
  EXPECT_EQ(made([](SessionOptions& o) { o.clip_norm = 0; }), "`clip-norm` 0: it must be above 0");
  EXPECT_EQ(made([](SessionOptions& o) { o.classes = 4; }),
            "the model 'own' ends in shape [8, 5], but a batch of 8 in 4 classes needs [8, 4]");
  SessionOptions both = like_the_run();
  both.data = "digits";
  EXPECT_EQ(error_of([&] { Session(small_net::logits, both); }),
            "`data` digits: dataset is set too; leave one of them out");
  SessionOptions large = like_the_run();
  large.batch = 31;
  EXPECT_EQ(error_of([&] { Session(small_net::logits, large); }),
            "`batch` 31: memory has 30 training images only");
}

TEST(Memory, RefusesSamplesThatDoNotFit) {
  using crossbow::data::from_memory;
  const std::vector<float> values(24);
  const std::vector<int32_t> labels{0, 1};
  const crossbow::data::Info info{.image = {3, 2, 2}, .classes = 2};
  const auto made = [&](crossbow::data::Info i, std::span<const float> v,
                        std::span<const int32_t> l) {
    return error_of([&] { from_memory(i, {values, labels}, {v, l}); });
  };
  EXPECT_EQ(made(info, values, labels), "no error");
  EXPECT_EQ(
      made(info, std::span(values).first(23), labels),
      "test samples from memory: 2 labels and images of shape [3, 2, 2] need 24 values, not 23");
  EXPECT_EQ(made(info, {}, {}), "test samples from memory: there are none");
  EXPECT_EQ(made(info, values, std::vector<int32_t>{0, 2}),
            "test samples from memory: label 1 is 2, which is none of 2 classes");
  EXPECT_EQ(made({.image = {12}, .classes = 2}, values, labels),
            "samples from memory: their shape is [12], but must be [channels, height, width]");
  EXPECT_EQ(made({.image = {3, 2, 2}, .classes = 2, .class_names = {"a"}}, values, labels),
            "samples from memory: 1 names for 2 classes");
}

TEST(Memory, TrainsFromFirstWeights) {
  Folder folder;
  auto o = run_options();
  o.epochs = 1;
  o.lr = 1e-30;  // the weights stay as they are
  o.weight_decay = 0;
  o.out = folder.path().string();
  const auto weights = small_net::first_weights(3, 216);
  o.first_weights = {{"conv2.weight", weights}};
  crossbow::train(small_net::logits, o);
  Session session(small_net::logits, like_the_run());
  const auto drawn = session.get("conv1.weight");
  session.load(folder.path());
  EXPECT_EQ(session.get("conv2.weight"), weights);
  EXPECT_EQ(session.get("conv1.weight"), drawn);

  o.first_weights = {{"conv2.weights", weights}};
  o.out.reset();
  EXPECT_EQ(error_of([&] { crossbow::train(small_net::logits, o); }),
            "the net has no tensor 'conv2.weights' among its 9; did you mean 'conv2.weight'?");
}

TEST(Memory, ARunGoesOnWithItsSet) {
  Folder folder;
  auto o = run_options();
  const auto once = crossbow::train(small_net::logits, o);
  o.out = folder.path().string();
  o.epochs = 1;
  crossbow::train(small_net::logits, o);
  o.out.reset();
  o.resume = folder.path().string();
  o.epochs = 3;
  o.first_weights = {{"conv2.weight", {}}};
  EXPECT_EQ(error_of([&] { crossbow::train(small_net::logits, o); }),
            "first_weights: a resumed run goes on with the weights that it has; leave them out");
  o.first_weights.clear();
  const auto twice = crossbow::train(small_net::logits, o);
  EXPECT_EQ(once.final_test_loss, twice.final_test_loss);
  o.dataset = nullptr;
  o.data = "memory";
  o.epochs = 4;
  EXPECT_EQ(error_of([&] { crossbow::train(small_net::logits, o); }),
            "the data set 'memory' is one that a program holds: use it there, or name another");
}

}  // namespace
