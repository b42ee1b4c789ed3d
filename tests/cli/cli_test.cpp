// The built program as a script sees it: exit codes, what goes to which stream, keys of the JSON.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/program.h"
#include "train/checkpoints.h"

namespace crossbow {
namespace {

using nlohmann::json;
using testing::expect_says;
using testing::text_of;

class Cli : public testing::ProgramTest {
 protected:
  void expect_usage_error(const std::string& arguments, const std::string& sentence) {
    const Outcome o = crossbow(arguments);
    EXPECT_EQ(o.code, 2) << arguments;
    EXPECT_EQ(o.out, "") << arguments;
    expect_says(o.err, sentence);
    EXPECT_EQ(std::count(o.err.begin(), o.err.end(), '\n'), 1) << o.err;
  }
  void expect_failure(const std::string& arguments, const std::string& sentence) {
    const Outcome o = crossbow(arguments);
    EXPECT_EQ(o.code, 1) << arguments;
    expect_says(o.err, sentence);
  }
};

void expect_keys(const json& object, const std::set<std::string>& wanted) {
  for (const std::string& name : wanted) EXPECT_TRUE(object.contains(name)) << name;
}

TEST_F(Cli, EveryCommandHelpsWithExamples) {
  EXPECT_EQ(crossbow("--help").code, 0);
  for (const char* command :
       {"train", "simulate", "eval", "predict", "runs", "bench", "models", "data", "data fetch",
        "data check", "convert", "export", "devices", "graph", "completion"}) {
    const Outcome o = crossbow(std::string(command) + " --help");
    EXPECT_EQ(o.code, 0);
    expect_says(o.out, std::string("  crossbow ") + command);
    EXPECT_EQ(o.err, "");
  }
}

TEST_F(Cli, SimulatesUnlikeWorkers) {
  const Outcome o = crossbow(
      "simulate --sync hogbatch --worker 'live:batch=4 replica:batch=16' "
      "--model mlp:layers=1,width=8 --epochs 1 --step-times constant:0.5 --json --out simulated");
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(json::parse(o.out)["workers"].size(), 2u);
}

/// Times of 1e12 steps and more.
TEST_F(Cli, GoesOnAfterAnyVirtualTime) {
  const std::string slow = tiny(
      "--learners 2 --sync ssgd --clock virtual --step-times constant:1e-6 --latency 1e6 --out s");
  ASSERT_EQ(crossbow(slow).code, 0);
  const Outcome o = crossbow("eval s");
  EXPECT_EQ(o.code, 0);
  EXPECT_EQ(o.err, "");
}

/// Its other options are then those of that run.
TEST_F(Cli, AConfigurationFileMayAskForARunAgain) {
  ASSERT_EQ(crossbow(tiny("--learners 2 --sync sgp --clock real --out run")).code, 0);
  std::ofstream(path("again.toml")) << "replay = 'run'\n";
  const Outcome o = crossbow("train --config again.toml --out again");
  EXPECT_EQ(o.code, 0) << o.err;
  testing::expect_same_bits(testing::load(path("run").string()),
                            testing::load(path("again").string()));
}

TEST_F(Cli, SimulatesMachines) {
  const Outcome o = crossbow(
      "simulate --nodes 3 --sync gossip-pull --model mlp:layers=1,width=8 --batch 64 --epochs 1 "
      "--step-times constant:0.5 --latency 0.25 --json --out simulated");
  ASSERT_EQ(o.code, 0) << o.err;
  const json said = json::parse(o.out);
  EXPECT_EQ(said["nodes"].size(), 3u);
  double waiting = 0, busy = 0;
  for (const json& node : said["nodes"]) {
    waiting += node["waiting_seconds"].get<double>();
    busy += node["busy_seconds"].get<double>();
    EXPECT_EQ(node["messages"], node["updates"]);
  }
  EXPECT_NEAR(waiting, busy, 0.01 * busy);  // there and back takes as long as a step
  EXPECT_NEAR(3 * said["virtual_seconds"].get<double>(), busy + waiting, 1e-6);
  expect_says(o.err, "on the virtual clock");
  expect_usage_error("simulate", "say how many nodes there are, for example --nodes 8");
  expect_usage_error("simulate --nodes 1", "several nodes");
  expect_usage_error("simulate --nodes 2 --sync none", "several nodes");
  expect_usage_error("simulate --nodes 2 --clock real", "use crossbow train");
  expect_usage_error("simulate --nodes 2 --step-times auto", "how long a step is");
  expect_usage_error("simulate --nodes 2 --learners 4", "--nodes excludes --learners");
  expect_usage_error("simulate --node 2", "did you mean '--nodes'");
}

TEST_F(Cli, UsageErrorsExitWith2AndOneSentence) {
  expect_usage_error("trian", "did you mean 'train'");
  expect_usage_error("train --bach 3", "did you mean '--batch'");
  expect_usage_error("train --epochs", "see crossbow train --help");
  expect_usage_error("train --epochs many", "--epochs: 'many' is not a whole number");
  expect_usage_error("train surplus", "'surplus' is not understood");
  for (const std::string command : {"train", "simulate"}) {
    expect_usage_error(command + " --checkpoint-every 1 --save-every 2",
                       "--save-every excludes --checkpoint-every");
  }
  expect_usage_error("train --model lenett", "lenet");
  expect_usage_error("train --data digit", "did you mean 'digits'");
  expect_usage_error("train --learners 4 --sync none", "--learners 4: say how they are to agree");
  expect_usage_error("train --device cpu:1",
                     "--device cpu:1: count the devices: cpu:0,cpu:1 for two");
  expect_usage_error("train --device cuda:99", "--device cuda:99: there is no GPU: ");
  expect_usage_error("train --device cuda:0,cuda:9",
                     "count the devices: cuda:0,cuda:1 for two; CUDA_VISIBLE_DEVICES=3,1 says");
  expect_usage_error("train --device gpu", "this version knows cpu, cuda, ref");
  expect_usage_error("train --device cpu:0,cpu:1 --sync none", "how its learners are to agree");
  expect_usage_error("train --retune --learners 2", "no number of learners to look for");
  expect_usage_error("train --splits 17", "--splits 17: a batch of 16 can be taken in 1 to 16");
  expect_usage_error("train --sync smaa", "did you mean 'sma'");
  expect_usage_error("train --sync sma-paper --alpha 1.2", "--alpha 1.2: with 2 learners");
  expect_usage_error(tiny("--learners 2 --sync-period 9"), "the run has 6 steps only");
  expect_usage_error("train --sync none --alpha 0.1", "--alpha: one learner alone");
  expect_usage_error("train --momentum 0 --nesterov", "--nesterov needs");
  expect_usage_error("eval", "see crossbow eval --help");
  expect_usage_error("bench --seconds 0", "--seconds 0");
  EXPECT_EQ(crossbow("").code, 2);
}

TEST_F(Cli, FailuresExitWith1) {
  expect_failure("eval nowhere", "there is no run or checkpoint nowhere");
  expect_failure("train --resume nowhere", "there is no run or checkpoint nowhere");
  expect_failure("train --data mnist:nowhere", "nowhere");
  expect_failure("train --config nowhere.toml",
                 "cannot read nowhere.toml: No such file or directory");
  expect_failure(tiny("--out /proc/run"), "choose another with --out");
  expect_failure(tiny("--lr 1e38"), "the loss became");
  EXPECT_EQ(crossbow("models >/dev/full || echo failed").out, "failed\n");
}

TEST_F(Cli, ARunThatCannotBeginLeavesNoFolder) {
  const Outcome o = crossbow(tiny("--learners 256 --model vgg-16 --out run"));
  EXPECT_EQ(o.code, 2) << o.err;
  EXPECT_FALSE(std::filesystem::exists(path("run"))) << o.err;
}

TEST_F(Cli, TrainPrintsPlainLinesInAPipe) {
  const Outcome o = crossbow(tiny());
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(o.err, "");
  expect_says(o.out, "\nepoch 2/2: loss ");
  expect_says(o.out, "crossbow eval runs/logistic-mnist-1\n");
  EXPECT_EQ(o.out.find('\r'), o.out.npos);
  EXPECT_EQ(o.out.find('\033'), o.out.npos);
  expect_says(crossbow(tiny()).out, "runs/logistic-mnist-2\n");
}

TEST_F(Cli, TrainJsonHasTheContractsKeys) {
  const Outcome o =
      crossbow(tiny("--model mlp:layers=1,width=9 --json --lr 1e-9 --target-accuracy 1"));
  EXPECT_EQ(o.code, 0);
  expect_says(o.err, "epoch 1/2");
  const json j = json::parse(o.out);
  expect_keys(j, {"model",
                  "data",
                  "device",
                  "sync",
                  "batch",
                  "learners",
                  "threads_per_learner",
                  "precision",
                  "seed",
                  "epochs",
                  "seconds",
                  "train_seconds",
                  "images_per_second",
                  "final_test_accuracy",
                  "best_test_accuracy",
                  "final_test_loss",
                  "reached_target",
                  "epochs_to_target",
                  "seconds_to_target",
                  "peak_rss_mb",
                  "parameters",
                  "lr_factor",
                  "noise_scale",
                  "efficiency",
                  "goodput",
                  "history"});
  EXPECT_EQ(j["parameters"], 64 * 9 + 9 + 9 * 10 + 10);
  EXPECT_EQ(j["learners"], 1);
  EXPECT_EQ(j["threads_per_learner"], 1);
  EXPECT_EQ(j["sync"], "sma");
  EXPECT_EQ(j["reached_target"], false);
  EXPECT_TRUE(j["seconds_to_target"].is_null());
  ASSERT_EQ(j["history"].size(), 2u);
  expect_keys(j["history"][0],
              {"epoch", "train_loss", "test_accuracy", "seconds", "images_per_second", "learners",
               "noise_scale", "efficiency", "goodput", "distance"});
  EXPECT_EQ(j["final_test_accuracy"], j["history"][1]["test_accuracy"]);

  const json reached = json::parse(crossbow(tiny("--json --target-accuracy 0.01")).out);
  EXPECT_EQ(reached["reached_target"], true);
  EXPECT_EQ(reached["epochs_to_target"], 1);
  EXPECT_EQ(reached["seconds_to_target"], reached["train_seconds"]);
}

/// Two of four nodes take so long for a step that the others send nearly all of their mass away.
TEST_F(Cli, SimulatesNodesThatNobodyAnswers) {
  const Outcome o = crossbow(
      "simulate --nodes 4 --sync sgp --model logistic --epochs 1 --step-times constant:0.001 "
      "--straggler 2:2000,3:2000 --deterministic --out unanswered");
  EXPECT_EQ(o.code, 0) << o.err;
}

/// Two of four nodes fail; what is left of the run says so, and is the same by one thread as by
/// all.
TEST_F(Cli, SimulatesFailuresOfLearnersThatWait) {
  const std::string simulate =
      " simulate --nodes 4 --sync sma --model mlp:layers=1,width=8 --batch 4 --epochs 2 --json "
      "--deterministic --step-times constant:0.5 --latency 0.25 --fail 2:1.6,0:2 --data " +
      data_.spec() + " --out ";
  const Outcome o = crossbow(simulate + "all");
  ASSERT_EQ(o.code, 0) << o.err;
  const json said = json::parse(o.out);
  EXPECT_EQ(said["learners"], 2);
  ASSERT_EQ(said["lost_nodes"].size(), 2u);
  EXPECT_EQ(said["lost_nodes"][0]["node"], 2);
  EXPECT_EQ(said["lost_nodes"][0]["virtual_seconds"], 1.6);
  EXPECT_EQ(said["lost_nodes"][1]["node"], 0);
  expect_says(o.err, "node 2 after 1.6 s on that clock");
  expect_says(text_of(path("all/metrics.jsonl")), "\"lost_nodes\":[{\"node\":2,");

  const Outcome one = shell("taskset -c 0 " + crossbow_binary() + simulate + "one");
  ASSERT_EQ(one.code, 0) << one.err;
  EXPECT_EQ(json::parse(one.out)["virtual_seconds"], said["virtual_seconds"]);
  EXPECT_EQ(json::parse(one.out)["final_test_loss"], said["final_test_loss"]);
  testing::expect_same_bits(testing::load(path("all")), testing::load(path("one")));
}

/// Of ten that fail.
TEST_F(Cli, SumsUpTheFirstLostNodes) {
  std::string fail;
  for (int node = 0; node < 10; ++node) fail += fmt::format("{}{}:0", node ? "," : "", node);
  const Outcome o = crossbow(
      "simulate --nodes 12 --sync ssgd --model mlp:layers=1,width=8 --batch 64 --epochs 1 "
      "--step-times constant:0.5 --out run --fail " +
      fail);
  ASSERT_EQ(o.code, 0) << o.err;
  expect_says(o.out, "node 7 after 0 s on that clock\n            and 2 more: --json lists all");
}

/// A process that may use one core only plans for one.
TEST_F(Cli, TrainStaysOnTheCoresThatItMayUse) {
  const Outcome o = shell("taskset -c 0 " + crossbow_binary() +
                          " train --model logistic --epochs 1 --json --data " + data_.spec());
  ASSERT_EQ(o.code, 0) << o.err;
  const json j = json::parse(o.out);
  EXPECT_EQ(j["learners"], 1);
  EXPECT_EQ(j["threads_per_learner"], 1);
}

TEST_F(Cli, EvalTakesEveryRun) {
  ASSERT_EQ(crossbow(tiny("--learners 2 --sync-period 2 --splits 4 --out run")).code, 0);
  const Outcome o = crossbow("eval run");
  EXPECT_EQ(o.code, 0) << o.err;
}

TEST_F(Cli, FlagsWinOverTheFile) {
  std::ofstream(path("run.toml")) << "batch = 8\nlr = 0.5\nmomentum = 0\n";
  const Outcome o = crossbow(tiny("--config run.toml --lr 0.25 --out a --json"));
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(json::parse(o.out)["batch"], 8);
  const std::string resolved = text_of(path("a/config.toml"));
  expect_says(resolved, "\nlr = 0.25\n");
  expect_says(resolved, "\nmomentum = 0\n");
  // The resolved file makes the same run again.
  const json again = json::parse(crossbow("train --config a/config.toml --out b --json").out);
  EXPECT_EQ(again["history"][1]["train_loss"], json::parse(o.out)["history"][1]["train_loss"]);

  std::ofstream(path("run.toml")) << "momentun = 0.9\n";
  expect_usage_error(tiny("--config run.toml"),
                     "run.toml:1: momentun: there is no such option; did you mean 'momentum'?");
}

TEST_F(Cli, ARunCanBeEvaluatedAndMadeLonger) {
  const json trained = json::parse(crossbow(tiny("--out run --json")).out);
  const Outcome evaluated = crossbow("eval run --json");
  ASSERT_EQ(evaluated.code, 0) << evaluated.err;
  EXPECT_EQ(json::parse(evaluated.out)["test_accuracy"], trained["final_test_accuracy"]);
  EXPECT_EQ(crossbow("eval run/checkpoint").code, 0);

  expect_usage_error(tiny("--out run"), "holds a run already; go on with it by --resume run");
  expect_usage_error("train --resume run --batch 8", "--batch 8: the run to resume has 16");
  const Outcome longer = crossbow("train --resume run --epochs 3 --json");
  ASSERT_EQ(longer.code, 0) << longer.err;
  EXPECT_EQ(json::parse(longer.out)["history"].size(), 3u);
  std::ofstream(path("run/checkpoint"), std::ios::trunc) << "rubbish";
  const Outcome fallen_back = crossbow("eval run");
  EXPECT_EQ(fallen_back.code, 0);
  expect_says(fallen_back.err, "not a checkpoint of crossbow");
}

TEST_F(Cli, CtrlCSavesAndSaysHowToGoOn) {
  const pid_t child =
      start("exec " + crossbow_binary() + ' ' + tiny("--out run --epochs 1000000000"));
  EXPECT_TRUE(comes([&] { return std::filesystem::exists(path("run/checkpoint")); }));
  kill(child, SIGINT);
  const Outcome stopped = end_of(child);
  EXPECT_EQ(stopped.code, 128 + SIGINT);
  expect_says(stopped.err, "go on with crossbow train --resume run");
  const Outcome resumed = crossbow("train --resume run --epochs 1");
  EXPECT_EQ(resumed.code, 0) << resumed.err;  // more epochs than that are done: nothing is left
}

TEST_F(Cli, BenchJsonHasTheContractsKeys) {
  const Outcome o = crossbow("bench --model logistic --device ref --seconds 0.05 --json");
  ASSERT_EQ(o.code, 0) << o.err;
  const json j = json::parse(o.out);
  expect_keys(j, {"model", "device", "batch", "learners", "threads_per_learner", "precision",
                  "images_per_second", "step_ms", "flops_per_image", "gflops_per_second",
                  "arena_mb", "arena_mb_without_reuse", "parameters", "ops"});
  EXPECT_EQ(j["parameters"], 7850);
  ASSERT_GE(j["ops"].size(), 3u);
  double percent = 0;
  for (const json& op : j["ops"]) {
    expect_keys(op, {"name", "kind", "ms", "percent", "gflops_per_second"});
    percent += op["percent"].get<double>();
  }
  EXPECT_NEAR(percent, 100, 1e-6);
}

TEST_F(Cli, ListsModelsAndData) {
  const Outcome models = crossbow("models");
  EXPECT_EQ(models.code, 0);
  expect_says(models.out, "1,111,946");
  const Outcome one = crossbow("models resnet-32");
  expect_says(one.out, "468,826");
  expect_says(one.out, "recipe");
  expect_says(crossbow("models resnet-50:variant=v2").out, "25,549,352");
  EXPECT_EQ(crossbow("models resnet-50:variant=v3").code, 2);
  expect_says(crossbow("models googlenet").out, "step, times 0.96 every 8 epochs");
  EXPECT_EQ(crossbow("models resnet-33").code, 2);
  expect_says(crossbow("data").out, "cifar100");
  EXPECT_GE(json::parse(crossbow("data --json").out)["data"].size(), 5u);
  EXPECT_GE(json::parse(crossbow("models --json").out)["models"].size(), 9u);
}

TEST_F(Cli, ListsDevicesOrWhyThereAreNone) {
  const Outcome text = crossbow("devices");
  EXPECT_EQ(text.code, 0);
  expect_says(text.out, "cpu ");
  const json kinds = json::parse(crossbow("devices --json").out)["kinds"];
  ASSERT_EQ(kinds.size(), 2u);
  EXPECT_EQ(kinds[0]["name"], "cpu");
  EXPECT_GE(kinds[0]["devices"].get<int>(), 1);
  EXPECT_EQ(kinds[1]["name"], "cuda");
  EXPECT_EQ(kinds[1]["devices"] == 0, kinds[1]["why_none"].is_string());
  expect_says(text.out, kinds[1]["devices"] == 0 ? "cuda   none: " : "cuda:0 ");
  if (kinds[1]["devices"] > 0) return;
  const std::string why = kinds[1]["why_none"];
  expect_usage_error("train --device cuda", "--device cuda: there is no GPU: " + why);
  expect_usage_error("train --device cuda:0", "--device cuda:0: there is no GPU: " + why);
  expect_usage_error("bench --device cuda", "--device cuda: there is no GPU: " + why);
}

TEST_F(Cli, GraphShowsShapesAndMemory) {
  const Outcome o = crossbow("graph --model lenet --device ref");
  EXPECT_EQ(o.code, 0) << o.err;
  expect_says(o.out, "[16, 32, 24, 24]");
  expect_says(o.out, "without reuse");
  EXPECT_EQ(crossbow("graph --model lenet --dot").out.rfind("digraph", 0), 0u);
  expect_says(crossbow("graph --model lenet --device ref --freeze fc1.bias").out, "(1,024 frozen)");
  const json j = json::parse(crossbow("graph --model lenet --device ref --json").out);
  EXPECT_LT(j["memory_mb"]["activations"], j["memory_mb"]["activations_without_reuse"]);
}

TEST_F(Cli, NoFigureOfAnotherProgramIsGuessed) {
  const Outcome graph = crossbow("graph --model lenet --device ref");
  EXPECT_PRED_FORMAT2(::testing::IsNotSubstring, "PyTorch", graph.out);
  const Outcome train = crossbow(tiny("--out " + path("run").string()));
  EXPECT_EQ(train.code, 0) << train.err;
  expect_says(train.out, "1 learner took");
  EXPECT_PRED_FORMAT2(::testing::IsNotSubstring, "PyTorch", train.out);
}

}  // namespace
}  // namespace crossbow
