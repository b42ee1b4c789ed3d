// What the program says, and what it takes an option for.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/program.h"
#include "core/machine.h"

namespace crossbow::testing {
namespace {

using nlohmann::json;

class Messages : public ProgramTest {
 protected:
  /// The sentence that refuses a command.
  std::string refusal(const std::string& arguments) {
    const Outcome o = crossbow(arguments);
    EXPECT_EQ(o.code, 2) << arguments << '\n' << o.err;
    EXPECT_EQ(std::count(o.err.begin(), o.err.end(), '\n'), 1) << o.err;
    return o.err;
  }
  std::string train(const std::string& more) {
    const Outcome o = crossbow(tiny(more));
    EXPECT_EQ(o.code, 0) << more << '\n' << o.err;
    return o.out;
  }
};

TEST_F(Messages, WithABacktickOfTheUsersOwnAreWhole) {
  for (const std::string run : {"x`lr", "a`resume"}) {
    const Outcome o = crossbow("eval '" + run + "'");
    EXPECT_EQ(o.code, 1);
    expect_says(o.err, "there is no run or checkpoint " + run);
  }
}

TEST_F(Messages, RefuseWhatWouldBeIgnored) {
  expect_says(refusal("graph --model lenet --dot --json"), "--json excludes --dot");
  train("--out run");
  expect_says(refusal("simulate --resume run --epochs 3"), "use crossbow train");
}

TEST_F(Messages, SuggestOnlyWhatIsNear) {
  expect_says(refusal("train --bacth 3"), "did you mean '--batch'");
  expect_says(refusal("train --thread 3"), "did you mean '--threads-per-learner'");
  for (const char* arguments : {"train --zzz", "train --frob 1", "train --wd 1", "frobnicate"}) {
    EXPECT_EQ(refusal(arguments).find("did you mean"), std::string::npos) << arguments;
  }
}

TEST_F(Messages, SayOfWhatIsPlannedThatItDoesNotExistYet) {
  for (const char* arguments : {"train --onnx net.onnx", "import"}) {
    const std::string text = refusal(arguments);
    expect_says(text, "does not exist yet");
    EXPECT_EQ(text.find("did you mean"), std::string::npos) << text;
  }
}

TEST_F(Messages, SayHowGpusAreChosen) {
  for (const char* arguments : {"train --gpus 2", "train --cuda"}) {
    expect_says(refusal(arguments), "--device says which GPUs train: cuda, or cuda:0,cuda:1");
  }
}

TEST_F(Messages, SayWhatHasTf32) {
  expect_says(refusal("train --precision tf32"),
              "--precision tf32: only GPUs have it; on cpu choose f32 or bf16");
}

TEST_F(Messages, SayWhoStartsSeveralProcesses) {
  for (const char* arguments : {"train --mpi", "train --hosts a,b", "train --ranks 4"}) {
    expect_says(refusal(arguments), "mpirun -n 2 --bind-to none crossbow train");
  }
}

TEST_F(Messages, RefuseAnEmptyValue) {
  expect_says(refusal("train --out= --deterministic"), "--out: its value is empty");
  expect_says(refusal("train --lr-milestones= --epochs 1"), "--lr-milestones: its value is empty");
  expect_says(refusal("train --resume ''"), "--resume: its value is empty");
  expect_says(refusal("train --mirror="), "--mirror: its value is empty");
  expect_says(refusal("eval ''"), "argument 2 is empty");
  for (const auto& entry : std::filesystem::directory_iterator(work_.path())) {
    EXPECT_FALSE(entry.is_directory()) << entry.path();
  }
}

TEST_F(Messages, RefuseAnOptionInThePlaceOfAValue) {
  expect_says(refusal("train --out --deterministic"),
              "--out: its value is missing, as --deterministic is an option; "
              "--out=--deterministic says that it is the value");
  expect_says(refusal("train --epochs 1 --data --lr=3"), "--data: its value is missing");
  expect_says(refusal("train --out -h"), "--out: its value is missing");
  expect_says(refusal("eval --data --json run"), "--data: its value is missing");
  expect_says(refusal("train --lr -1"), "--lr -1");
  train("--out=--deterministic");
  EXPECT_TRUE(std::filesystem::is_directory(path("--deterministic")));
}

TEST_F(Messages, StayOnOneLine) {
  for (const char* arguments :
       {"train --data 'mnist:a\nb'", "train --model 'a\nb'", "train '--a\nb'", "'a\nb\033[2J'"}) {
    const Outcome o = crossbow(arguments);
    EXPECT_NE(o.code, 0);
    EXPECT_EQ(std::count(o.err.begin(), o.err.end(), '\n'), 1) << o.err;
    EXPECT_EQ(o.err.find('\033'), std::string::npos) << o.err;
    expect_says(o.err, "a\\nb");
  }
  const std::string out = train("--out 'run\n2'");
  expect_says(out, "crossbow eval run\\n2\n");
}

TEST_F(Messages, EverySwitchTakesTrueAndFalse) {
  const auto said = [&](const std::string& option) {
    train(option + " --out run");
    const std::string config = text_of(path("run/config.toml"));
    std::filesystem::remove_all(path("run"));
    return config;
  };
  expect_says(said("--mirror"), "\nmirror = true\n");
  expect_says(said("--mirror=true"), "\nmirror = true\n");
  expect_says(said("--mirror=false"), "\nmirror = false\n");
  expect_says(said("--no-mirror"), "\nmirror = false\n");
  expect_says(said("--mirror --mirror=false"), "\nmirror = false\n");
  expect_says(said("--nesterov=true"), "\nnesterov = true\n");
  expect_says(said("--deterministic=false"), "\ndeterministic = false\n");
  std::ofstream(path("run.toml")) << "mirror = false\n";
  expect_says(said("--model mlp:layers=1,width=4 --config run.toml"), "\nmirror = false\n");
  expect_says(refusal("train --mirror=maybe"), "--mirror: 'maybe' is not true or false");
}

TEST_F(Messages, AnAlgorithmsNameIsEnough) {
  for (const char* sync : {"sma", "ssgd", "easgd", "eamsgd", "polyak-ruppert", "local-sgd",
                           "post-local-sgd", "slowmo"}) {
    const std::string name(sync);
    train("--learners 2 --out " + name + " --sync " + name);
    EXPECT_EQ(crossbow("train --resume " + name + " --epochs 3").code, 0) << text_of(path("err"));
    EXPECT_EQ(crossbow("train --config " + name + "/config.toml --out " + name + "-2").code, 0)
        << text_of(path("err"));
  }
  expect_says(train("--learners 2 --sync easgd"), "\nsgd at rate 0.1, cosine; momentum 0, ");
  expect_says(train("--learners 2 --sync eamsgd"), "momentum 0.9 (Nesterov)");
  expect_says(train("--learners 2 --sync post-local-sgd"), "times 0.1 at epoch 1, 1.5;");
}

TEST_F(Messages, OfASwitchTheLastWordCounts) {
  const auto mirrors = [&](const std::string& options) {
    train(options + " --out run");
    const bool mirrors =
        text_of(path("run/config.toml")).find("mirror = true") != std::string::npos;
    std::filesystem::remove_all(path("run"));
    return mirrors;
  };
  EXPECT_TRUE(mirrors("--no-mirror --mirror"));
  EXPECT_FALSE(mirrors("--mirror --no-mirror"));
  EXPECT_EQ(crossbow("train --help").out.find("--no-mirror"), std::string::npos);
}

TEST_F(Messages, OfAConfigurationFileTheLastCounts) {
  std::ofstream(path("wrong.toml")) << "lr = -1\n";
  std::ofstream(path("right.toml")) << "lr = 0.5\n";
  train("--config wrong.toml --config right.toml --out run");
  expect_says(text_of(path("run/config.toml")), "\nlr = 0.5\n");
}

/// A command's argument may be named like another command.
TEST_F(Messages, OneCommandIsCalledAtATime) {
  expect_says(refusal("bench train"),
              "bench: 'train' is not understood; see crossbow bench --help");
  expect_says(refusal("completion bash devices"), "'devices' is not understood");
  expect_says(refusal("models train"), "train");
  expect_says(crossbow("runs train").err, "train");
  EXPECT_FALSE(std::filesystem::exists(path("runs")));
}

TEST_F(Messages, AfterTwoDashesAllAreArguments) {
  const Outcome o = crossbow("eval -- --json");
  EXPECT_EQ(o.code, 1);
  expect_says(o.err, "there is no run or checkpoint --json");
}

TEST_F(Messages, TellWhatIsWrongBeforeAFolderIsMade) {
  std::ofstream(path("runs")) << "a file";
  expect_says(refusal("train --lr -1"), "--lr -1");
}

TEST_F(Messages, SayHowUnlikeDevicesTrainTogether) {
  expect_says(refusal("train --device cpu+cuda"), "--sync adaptive-hogbatch");
}

TEST_F(Messages, ARunInPartsIsMeasuredByItsParts) {
  std::ofstream(path("split.toml")) << "model = 'logistic'\nbatch = 16\nsplits = 4\n";
  const std::string bench = "bench --device ref --learners 1 --seconds 0.1 --config split.toml ";
  expect_says(refusal(bench), "say --splits 1, and the size of a part as --batch");
  EXPECT_EQ(crossbow(bench + "--splits 1 --batch 4").code, 0);
}

/// What a message proposes is understood, and does away with the complaint.
TEST_F(Messages, ProposeWhatWorks) {
  const auto mended = [&](const std::string& wrong, const std::string& proposed,
                          const std::string& followed) {
    const Outcome o = crossbow(tiny(wrong));
    EXPECT_EQ(o.code, 2) << wrong;
    expect_says(o.err, proposed);
    train(followed);
  };
  const std::string two = "--learners 2 ";
  mended(two + "--sync none", "--sync sma", two + "--sync none --sync sma");
  mended(two + "--sync easgd --momentum 0.5", "choose eamsgd",
         two + "--sync eamsgd --momentum 0.5");
  mended(two + "--sync easgd --nesterov", "choose eamsgd", two + "--sync eamsgd --nesterov");
  mended(two + "--sync eamsgd --momentum 0", "choose easgd", two + "--sync easgd --momentum 0");
  mended(two + "--sync eamsgd --no-nesterov", "leave it out", two + "--sync eamsgd");
  mended(two + "--sync post-local-sgd --lr-schedule cosine",
         "choose step or multistep with --lr-milestones",
         two + "--sync post-local-sgd --lr-schedule step --lr-milestones 1");
  mended(two + "--sync sma-paper --alpha 1.5", "leave it out", two + "--sync sma-paper");
  mended("--alpha 0.5", "leave it out", "");
  mended("--lr-milestones 1", "add --lr-schedule multistep",
         "--lr-milestones 1 --lr-schedule multistep");
  mended("--lr-gamma 0.5", "add --lr-schedule multistep and --lr-milestones",
         "--lr-gamma 0.5 --lr-schedule multistep --lr-milestones 1");
  mended("--lr-schedule step", "--lr-milestones", "--lr-schedule step --lr-milestones 1");
  mended("--momentum 0 --nesterov", "--nesterov needs a --momentum above 0",
         "--momentum 0.5 --nesterov");
}

TEST_F(Messages, ARunSaysFirstWhetherItCanBeRepeated) {
  expect_says(train(""), "same seed, same bits, on this machine");
  expect_says(train("--deterministic"), "same seed, same bits, on every machine");
  expect_says(train("--learners auto --retune"), "results depend on timing");
  expect_says(train("--learners auto --sync none"), "same seed, same bits");
}

TEST_F(Messages, ARunSaysThatItsSearchKnowsNoNoise) {
  if (physical_cores() == 1) GTEST_SKIP() << "one core leaves nothing to choose";
  const std::string note = "the noise of the gradients is not";
  const std::string search = "--device cpu --learners auto --retune ";
  expect_says(train(search + "--momentum 0"), note);
  expect_says(train(search + "--sync easgd"), note);
  EXPECT_EQ(train(search + "--momentum 0.9").find(note), std::string::npos);
}

TEST_F(Messages, ASimulationRepeatsOnlySimulations) {
  train("--learners 2 --sync sgp --clock real --out run");
  expect_says(refusal("simulate --replay run"), "use crossbow train");
}

TEST_F(Messages, ARunSaysWhatItsScheduleWillNotDo) {
  expect_says(train("--lr-schedule multistep --lr-milestones 82,123"),
              "note: the rate never drops: the run has 2 epochs, and its first milestone is 82");
  expect_says(train("--warmup 5"), "note: the rate never reaches 0.01");
}

TEST_F(Messages, ARunSaysThatItsPatienceIsInVain) {
  const std::string vain = "cannot end this run early";
  expect_says(train("--patience 3 --eval-every 100 --epochs 3"),
              "note: --patience 3 cannot end this run early: it has 1 evaluation");
  expect_says(train("--patience 2 --eval-every 2 --epochs 4"), vain);
  for (const char* useful :
       {"--patience 1 --eval-every 2 --epochs 6", "--patience 2 --epochs 4", ""}) {
    EXPECT_EQ(train(useful).find(vain), std::string::npos) << useful;
  }
}

TEST_F(Messages, LearnersAreThoseOfEachDevice) {
  if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "one core cannot be two devices";
  const std::string two = "--device cpu:0,cpu:1 ";
  const std::string out = train(two);
  expect_says(out, "trained   by 1 learner of 1 thread on each of 2 devices");
  const json j = json::parse(train(two + "--json"));
  EXPECT_EQ(j["learners"], 1);
  EXPECT_EQ(j["devices"], 2);
  expect_says(crossbow("bench --seconds 0.1 --model logistic --learners 1 " + two).out,
              "on each of 2 devices");
}

TEST_F(Messages, TheSummaryFitsATerminal) {
  std::istringstream lines(train("--target-accuracy 0.001 --out run"));
  int seen = 0;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("  ")) continue;
    EXPECT_LE(line.size(), 80u) << line;
    ++seen;
  }
  EXPECT_GE(seen, 8);
}

TEST_F(Messages, TheGraphShowsWhatIsFusedAndCountsWeightsOnce) {
  const std::string graph = crossbow("graph --model resnet-20 --device ref").out;
  expect_says(graph, "batch_norm + add + relu");
  expect_says(crossbow("graph --model resnet-20 --dot").out, "\\nbatch_norm + add + relu");
  std::istringstream lines(crossbow("graph --model logistic --device ref --training").out);
  int with_weights = 0;
  for (std::string line; std::getline(lines, line);)
    with_weights += line.find("7,850") != line.npos;
  EXPECT_EQ(with_weights, 1);
}

TEST_F(Messages, TheGraphIsOfTheSizeAskedFor) {
  expect_says(crossbow("graph --model resnet-18 --device ref --image-size 100").out,
              "[16, 3, 100, 100]");
  const Outcome o = crossbow("graph --model alexnet --device ref --image-size 100");
  EXPECT_NE(o.code, 0);
  expect_says(o.err, "the nearest side to 100 is");
}

/// The replica's steps are the largest.
TEST_F(Messages, TheGraphCountsTheMemoryOfAllWorkers) {
  const auto memory = [&](const std::string& more) {
    const std::string graph = "graph --json --device ref --model mlp:layers=1,width=8 ";
    return json::parse(crossbow(graph + more).out)["memory_mb"];
  };
  const double of_replica = memory("--batch 2048")["activations"];
  EXPECT_GT(memory("--sync hogbatch")["learners"], of_replica);
}

TEST_F(Messages, DataSaysWhereItLooksAndWhatItKeeps) {
  const std::string text = crossbow("data").out + crossbow("data --help").out;
  for (const char* part : {"val/CLASS", "$CROSSBOW_DATA", "$XDG_CACHE_HOME"}) {
    expect_says(text, part);
  }
}

}  // namespace
}  // namespace crossbow::testing
