// `crossbow` on rows of numbers: LIBSVM files, sets of classes, losses as targets.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/program.h"
#include "core/machine.h"
#include "core/rng.h"
#include "train/checkpoints.h"

namespace crossbow {
namespace {

using nlohmann::json;
using testing::expect_says;

class RowsProgram : public testing::ProgramTest {
 protected:
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path(name)) << text;
  }
  /// Class 1 has feature 2 or 3, class −1 has 4 or 5; one row in ten is class 1.
  std::string two_classes(uint64_t seed) const {
    Rng rng(seed, Purpose::synthetic);
    std::string text;
    for (int i = 0; i < 400; ++i) {
      const bool one = rng.below(10) == 0;
      text += fmt::format("{} 1:{:.3f} {}:1 9:{:.3f}\n", one ? "+1" : "-1", rng.uniform(),
                          (one ? 2 : 4) + rng.below(2), rng.uniform());
    }
    return text;
  }
  static std::string train(const std::string& data, const std::string& more = "") {
    return "train --data libsvm:" + data +
           " --model logistic --learners 1 --threads-per-learner 1 --deterministic --lr 0.5 "
           "--epochs 6 --batch 8 --out run " +
           more;
  }
  json trained(const std::string& arguments) const {
    const Outcome o = crossbow(arguments + " --json");
    EXPECT_EQ(o.code, 0) << o.err;
    return json::parse(o.out);
  }
};

TEST_F(RowsProgram, TrainAndAreEvaluatedWithTheAreaUnderTheCurve) {
  write("set", two_classes(1));
  write("set.t", two_classes(2));
  const json result = trained(train("set"));
  EXPECT_EQ(result["final_test_accuracy"], 1);
  EXPECT_EQ(result["final_test_auc"], 1);
  EXPECT_FALSE(result.contains("final_test_precision_at_1"));
  EXPECT_EQ(result["history"].back()["test_auc"], 1);
  const Outcome eval = crossbow("eval run");
  expect_says(eval.out, "logistic on libsvm:set: test accuracy 100.00 %");
  expect_says(eval.out, "AUC 1.0000");
  expect_says(eval.out, "over 400 rows");
  expect_says(eval.out, "class   rows  accuracy");
  EXPECT_EQ(json::parse(crossbow("eval run --json").out)["test_auc"], 1);
  expect_says(crossbow("predict run x.png").err,
              "the model is of inputs of shape [9], which are no images");
}

TEST_F(RowsProgram, AreWrittenUnpacked) {
  write("set", two_classes(1));
  const Outcome o = crossbow("convert libsvm:set libsvm:copy.gz");
  EXPECT_EQ(o.code, 1);
  expect_says(o.err, "copy.gz: rows are written unpacked; choose another name");
}

TEST_F(RowsProgram, AreNoImagesToAugment) {
  write("set", two_classes(1));
  for (const std::string option : {"pad 2", "mirror"}) {
    const Outcome o = crossbow(train("set", "--" + option));
    EXPECT_EQ(o.code, 2);
    expect_says(o.err, "--" + option.substr(0, option.find(' ')) +
                           ": libsvm:set has rows of numbers, which are no images; leave it out");
  }
}

TEST_F(RowsProgram, SayWhichRowsAreHeldOut) {
  write("set", two_classes(1));
  const Outcome o = crossbow(train("set"));
  expect_says(o.out + o.err, "there is no set.t");
}

TEST_F(RowsProgram, MayHaveSetsOfClasses) {
  std::string text;
  for (int i = 0; i < 60; ++i) text += "3,7 1:1\n7 2:1\n 3:1\n-2,3 4:1\n";
  write("set", text);
  write("set.t", "3,7 1:1\n7 2:1\n-2,3 4:1\n 3:1\n");
  expect_says(crossbow(train("set")).err,
              "--loss cross-entropy: each sample has a set of classes, not one; choose sigmoid");
  const json result = trained(train("set", "--loss sigmoid --lr 2"));
  EXPECT_EQ(result["final_test_precision_at_1"], 0.75);  // one row has no class
  EXPECT_LT(result["final_test_loss"], 0.1);
  EXPECT_FALSE(result.contains("final_test_auc"));
  const json eval = json::parse(crossbow("eval run --json").out);
  EXPECT_EQ(eval["test_precision_at_1"], 0.75);
  EXPECT_FALSE(eval.contains("confusion"));
  const json more = trained("train --resume run --epochs 8");
  EXPECT_EQ(more["history"].size(), 8u);
}

/// Workers keep their threads, and with them their bits, whether they share one CPU or have two.
TEST_F(RowsProgram, OfWorkersHaveBitsThatDoNotDependOnTheCpus) {
  if (physical_cores() == 1) GTEST_SKIP() << "a machine of one core";
  write("set", two_classes(1));
  for (const std::string sync : {"hogbatch", "adaptive-hogbatch"}) {
    const std::string train =
        " train --data libsvm:set --model mlp:layers=2,width=64 --lr 0.5 --epochs 2 "
        "--clock virtual --worker live:threads=2,batch=1-4 --worker replica:threads=2,batch=16-64 "
        "--sync " +
        sync + " --out ";
    const auto [first, second] = std::pair(core_cpus()[0], core_cpus()[1]);
    const std::string one = fmt::format("taskset -c {} ", first);
    const std::string two = fmt::format("taskset -c {},{} ", first, second);
    for (const auto& [name, cpus] : {std::pair("1", one), std::pair("2", two)}) {
      const Outcome o = shell(cpus + crossbow_binary() + train + sync + name);
      ASSERT_EQ(o.code, 0) << o.err;
    }
    testing::expect_same_bits(testing::load(path(sync + "1")), testing::load(path(sync + "2")));
  }
}

TEST_F(RowsProgram, MayBeRatings) {
  std::string text = "userId,movieId,rating\n";
  for (int i = 0; i < 400; ++i) text += fmt::format("{},{},{}\n", i % 40, i / 40, 1 + i % 5);
  write("set", text);
  const std::string command =
      "train --data ratings:set --model factorisation:rank=3 --learners 1 --deterministic "
      "--epochs 6 --out run";
  const Outcome o = crossbow(command);
  ASSERT_EQ(o.code, 0) << o.err;
  expect_says(o.out + o.err, "loss mse");
  expect_says(o.out + o.err, ", RMSE ");
  expect_says(crossbow("eval run").out, "factorisation:rank=3 on ratings:set: test RMSE ");
  const json eval = json::parse(crossbow("eval run --json").out);
  EXPECT_TRUE(eval["test_accuracy"].is_null());
  EXPECT_NEAR(eval["test_rmse"].get<double>(), std::sqrt(eval["test_loss"].get<double>()), 1e-9);
  EXPECT_FALSE(eval.contains("test_precision_at_1"));
  const json more = trained("train --resume run --epochs 8");
  EXPECT_TRUE(more["final_test_accuracy"].is_null());
  EXPECT_EQ(more["final_test_rmse"], more["history"].back()["test_rmse"]);
  const json compared = json::parse(crossbow("runs run --json").out)["runs"][0];
  EXPECT_EQ(compared["final_test_rmse"], more["final_test_rmse"]);
  EXPECT_EQ(compared["best_test_rmse"], more["best_test_rmse"]);
  expect_says(crossbow("runs run").out,
              fmt::format(" {:.4f}", more["best_test_rmse"].get<double>()));
  expect_says(crossbow("models factorisation").out, "ratings       by 943 users of 1,682 items");
  expect_says(crossbow("convert ratings:set libsvm:x").err, "has numbers for labels");
  expect_says(crossbow("graph --model factorisation --data ratings:set").out, "row_dot");
  EXPECT_EQ(crossbow("bench --model factorisation --data ratings:set --seconds 0.1").code, 0);
}

TEST_F(RowsProgram, AreConvertedWithoutLoss) {
  write("set", "3,7 1:0.1 4:-1e-30\n7\n\n 3:16777216\n-2,3 4:1 9:0\n");
  write("set.t", "7 2:0.3333333432674408\n");
  const Outcome o = crossbow("convert libsvm:set libsvm:copy");
  EXPECT_EQ(o.out, "wrote 4 rows to copy and 1 to copy.t\n") << o.err;
  EXPECT_EQ(testing::text_of(path("copy")),
            "3,7 1:0.1 4:-1e-30 9:0\n7\n 3:16777216\n-2,3 4:1 9:0\n");
  EXPECT_EQ(testing::text_of(path("copy.t")), "7 2:0.33333334 9:0\n");
  EXPECT_EQ(crossbow("convert libsvm:copy libsvm:again").code, 0);
  EXPECT_EQ(testing::text_of(path("again")), testing::text_of(path("copy")));
  EXPECT_EQ(testing::text_of(path("again.t")), testing::text_of(path("copy.t")));
}

TEST_F(RowsProgram, AreNotConvertedOverFilesOrIntoOtherFormats) {
  write("set", two_classes(1));
  write("there.t", "mine");
  const Outcome there = crossbow("convert libsvm:set libsvm:there");
  EXPECT_EQ(there.code, 1);
  expect_says(there.err, "there.t is there already; remove it, or name another file");
  EXPECT_EQ(testing::text_of(path("there.t")), "mine");
  EXPECT_FALSE(std::filesystem::exists(path("there")));
  for (const std::string to : {"there", "libsvm:", "csv:there"}) {
    const Outcome o = crossbow("convert libsvm:set '" + to + "'");
    EXPECT_EQ(o.code, 2);
    expect_says(o.err, "TO '" + to + "': sets can be written as tfrecord:DIR");
  }
  write("packed.bz2", "");
  expect_says(crossbow("convert libsvm:set libsvm:packed").err,
              "packed.t would become the test set of packed.bz2; choose another name");
  for (const std::string of : {"set", "packed"}) {
    expect_says(crossbow("convert libsvm:set libsvm:" + of + ".t").err,
                of + ".t would become the test set of " + of);
  }
  std::filesystem::create_directory(path("folder"));
  expect_says(crossbow("convert libsvm:set libsvm:folder/").err, "is a folder; name a file in it");
  expect_says(crossbow("convert digits libsvm:x").err, "FROM 'digits': it is a set of images");
  EXPECT_EQ(crossbow("convert libsvm:set libsvm:no/folder").code, 1);
  EXPECT_EQ(crossbow("convert digits").code, 2);
}

TEST_F(RowsProgram, EndAtALoss) {
  write("set", two_classes(1));
  write("set.t", two_classes(2));
  const json all = trained(train("set"));
  for (const std::string on : {"test", "train"}) {
    const double loss = all["history"][2][on + "_loss"];
    const json result = trained(
        train("set", fmt::format("--target-loss {} --target-on {} --out {}", loss, on, on)));
    EXPECT_EQ(result["history"].size(), 3u) << on;
    EXPECT_EQ(result["epochs_to_target"], 3) << on;
    EXPECT_TRUE(result["reached_target"].get<bool>()) << on;
  }
  const double loss = all["history"][2]["train_loss"];
  const json rarely = trained(
      train("set",
            fmt::format("--target-loss {} --target-on train --eval-every 100 --out rarely", loss)));
  EXPECT_EQ(rarely["history"].size(), 3u);
  EXPECT_TRUE(rarely["history"].back()["test_loss"].is_number());
  const Outcome missed = crossbow(train("set", "--target-loss 0 --out missed"));
  expect_says(missed.out + missed.err, "a test loss of 0 not reached");
}

TEST_F(RowsProgram, RefuseTargetsThatMakeNoSense) {
  expect_says(crossbow("train --target-on train").err, "--target-on train needs a --target-loss");
  expect_says(crossbow("train --target-loss 1 --target-accuracy 1").err, "a run has one target");
  expect_says(crossbow("train --target-loss -1").err, "losses are numbers from 0 on");
  expect_says(crossbow("train --target-loss 1 --target-on loss").err, "--target-on loss");
}

/// No model can expect less on these rows than the one that drew their classes, and logistic
/// regression can be that model.
TEST_F(RowsProgram, OfAPlantedModelAreLearned) {
  const Outcome o = crossbow(
      "train --data like-w8a --model logistic --learners 1 --threads-per-learner 1 --batch 64 "
      "--lr 3 --epochs 2 --out run");
  std::string text = o.out + o.err;
  std::replace(text.begin(), text.end(), '\n', ' ');
  const std::string_view says = "of 0.";
  const size_t at = text.rfind(says, text.find("on the test rows"));
  ASSERT_NE(at, text.npos) << text;
  const double planted = std::stod(text.substr(at + 3));
  const json eval = json::parse(crossbow("eval run --json").out);
  EXPECT_LT(eval["test_loss"], 1.05 * planted);
  EXPECT_GT(eval["test_loss"], 0.95 * planted);
}

TEST_F(RowsProgram, MayHaveManyFeatures) {
  write("set", "1 1:1 20000:1\n2 2:1\n1 1:1\n2 2:1\n");
  write("set.t", "1 1:1\n2 2:1\n");
  EXPECT_EQ(trained(train("set", "--batch 2"))["final_test_accuracy"], 1);
}

TEST_F(RowsProgram, AreNoImages) {
  write("set", two_classes(1));
  expect_says(
      crossbow("train --data libsvm:set --model lenet").err,
      "the model 'lenet' learns images, but each sample is a row of 9 numbers: choose logistic "
      "or mlp");
}

}  // namespace
}  // namespace crossbow
