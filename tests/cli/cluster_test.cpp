// Runs of several processes that a launcher of MPI starts. Without one they are skipped.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string_view>

#include "cli/program.h"
#include "core/machine.h"
#include "data/files.h"
#include "kernels/cpu/loops.h"
#include "support/paths.h"
#include "sync/sync.h"
#include "train/checkpoints.h"
#include "train/train.h"
#include "train/turns.h"

namespace crossbow::testing {
namespace {

using nlohmann::json;

class Cluster : public ProgramTest {
 protected:
  Cluster() : ProgramTest(/*training_images=*/176) {}

  void SetUp() override {
    look_for_no_leaks();
    const bool found = crossbow("--version").out.find("MPI       none") == std::string::npos;
#ifdef CROSSBOW_HAS_MPI
    ASSERT_TRUE(found) << "the module is built, and is not found";
#endif
    if (!found || shell(launcher() + " --version").code != 0) GTEST_SKIP() << "there is no MPI";
  }
  /// Of Debian's Open MPI; CROSSBOW_MPIRUN may name another, with its options.
  static std::string launcher() {
    const char* const other = std::getenv("CROSSBOW_MPIRUN");
    return other ? other : "mpirun -q --oversubscribe --bind-to none --allow-run-as-root";
  }
  static std::string mpirun(int ranks) {
    return fmt::format("{} -n {} {} ", launcher(), ranks, crossbow_binary());
  }
  Outcome cluster(int ranks, const std::string& arguments) const {
    return shell(mpirun(ranks) + arguments);
  }
  std::string train(const std::string& more) const {
    return free("--deterministic " + more);
  }
  std::string free(const std::string& more) const {
    return "train --learners 1 --threads-per-learner 1 --epochs 2 --batch 16 --data " +
           data_.spec() + ' ' + more;
  }
  /// The processes of the ranks, in the order in which they were started.
  std::vector<pid_t> ranks() const {
    std::vector<pid_t> all;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      const std::string process = entry.path().filename();
      std::error_code gone;
      if (!std::isdigit(process[0]) || text_of(entry.path() / "comm") != "crossbow\n" ||
          !std::filesystem::equivalent(entry.path() / "cwd", path(""), gone)) {
        continue;
      }
      all.push_back(std::stoi(process));
    }
    std::sort(all.begin(), all.end());
    return all;
  }
  /// Of the processor, so far.
  static double seconds_of(pid_t process) {
    const std::string stat = text_of(fmt::format("/proc/{}/stat", process));
    std::istringstream after_name(stat.substr(stat.rfind(')') + 1));
    const std::vector<std::string> fields{std::istream_iterator<std::string>(after_name), {}};
    const double ticks = std::stod(fields.at(11)) + std::stod(fields.at(12));
    return ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
  }
  json trained(const Outcome& o) const {
    EXPECT_EQ(o.code, 0) << o.err;
    return json::parse(o.out);
  }
  Checkpoint checkpoint(const std::string& run) const {
    return load(path(run).string());
  }

  /// Of what a run computes, whatever the order of tensors.
  static void expect_same_state(const Checkpoint& a, const Checkpoint& b) {
    ASSERT_EQ(a.tensors.size(), b.tensors.size());
    expect_state_in(a, b);
  }
  static void expect_state_in(const Checkpoint& a, const Checkpoint& b) {
    for (const auto& t : a.tensors) {
      const auto other = std::ranges::find_if(b.tensors, [&](const auto& u) {
        return u.name == t.name && u.role == t.role && u.index == t.index && u.slot == t.slot;
      });
      ASSERT_NE(other, b.tensors.end()) << t.name << ' ' << t.index;
      EXPECT_EQ(t.values(), other->values()) << t.name << ' ' << t.index;
    }
  }
};

/// As many devices of one process are the reference. The ranks also save within the first epoch.
TEST_F(Cluster, RanksHaveTheBitsOfDevices) {
  const std::string drops = "--lr-schedule multistep --lr-milestones 1 --lr-gamma 0.5 ";
  for (const SyncEntry& entry : sync_catalogue()) {
    const std::string sync(entry.name);
    SCOPED_TRACE(sync);
    const std::string options = "--model resnet-20 " + drops + "--sync " + sync;
    const json devices =
        trained(crossbow(train(options + " --device cpu:0,cpu:1 --json --out one-" + sync)));
    const json ranks =
        trained(cluster(2, train(options + " --save-every 1e-9 --json --out two-" + sync)));
    EXPECT_EQ(ranks["ranks"], 2);
    for (size_t e = 0; e < devices["history"].size(); ++e) {
      for (const char* key : {"train_loss", "test_loss", "test_accuracy", "distance"}) {
        EXPECT_EQ(devices["history"][e][key], ranks["history"][e][key]) << key << ' ' << e;
      }
    }
    expect_same_state(checkpoint("one-" + sync), checkpoint("two-" + sync));
  }
}

/// Devices of their own memory, of which there are as many as it takes, compute what CPUs do, and
/// so do as many learners of one device. The gradients of `ssgd` have several buckets.
TEST_F(Cluster, MoreRanksHaveTheBitsOfMoreDevices) {
  for (const int64_t r : {3, 4}) {
    for (const SyncEntry& entry : sync_catalogue()) {
      const std::string sync(entry.name);
      const std::string run = fmt::format("{}-{}", sync, r);
      SCOPED_TRACE(run);
      const std::string model = sync == "ssgd" ? "resnet-20" : "logistic";
      const std::string same = "--model " + model +
                               " --lr-schedule multistep "
                               "--lr-milestones 1 --lr-gamma 0.5 --sync " +
                               sync;
      const json ranks =
          trained(cluster(static_cast<int>(r), train(same + " --json --out " + run)));
      TrainOptions o;
      o.model = model;
      o.sync = sync;
      o.lr_schedule = "multistep";
      o.lr_milestones = {1};
      o.lr_gamma = 0.5;
      o.deterministic = true;
      o.learners = o.threads_per_learner = 1;
      o.epochs = 2;
      o.batch = 16;
      o.data = data_.spec();
      for (int64_t d = 0; d < r; ++d)
        o.device = fmt::format("{}{}late:{}", d ? o.device : "", d ? "," : "", d);
      o.out = path("late-" + run).string();
      const TrainResult devices = crossbow::train(o);
      EXPECT_EQ(ranks["history"][1]["train_loss"], devices.history[1].train_loss);
      EXPECT_EQ(ranks["history"][1]["test_loss"], *devices.history[1].test_loss);
      expect_same_state(checkpoint(run), checkpoint("late-" + run));

      o.device = "cpu";
      o.learners = r;
      o.out = path("one-" + run).string();
      crossbow::train(o);
      expect_state_in(checkpoint("one-" + run), checkpoint(run));  // which has a z of each device
    }
  }
}

/// Three ranks of two learners: eleven batches are no multiple of six.
TEST_F(Cluster, SeveralLearnersOfARankAreAveragedFirst) {
  const std::string options = "--model logistic --learners 2 --sync ";
  for (const std::string sync : {"sma", "ssgd", "sma-paper"}) {
    const json ranks = trained(cluster(3, train(options + sync + " --json --out three-" + sync)));
    EXPECT_EQ(ranks["learners"], 2);
    EXPECT_EQ(ranks["ranks"], 3);
    EXPECT_LT(ranks["history"][1]["train_loss"], ranks["history"][0]["train_loss"]);
    int64_t learners = 0;
    for (const auto& t : checkpoint("three-" + sync).tensors) {
      if (t.role == Checkpoint::Role::weights && t.name == "fc.weight") ++learners;
    }
    EXPECT_EQ(learners, sync == "ssgd" ? 0 : 6);
  }
}

TEST_F(Cluster, ASignalSavesAndTheRunGoesOnToTheBit) {
  const std::string options = "--model resnet-20 --sync sma --epochs 40 ";
  trained(cluster(2, train(options + "--json --out whole")));
  const pid_t child = start("exec " + mpirun(2) + train(options + "--out parts"));
  EXPECT_TRUE(comes([&] { return text_of(path("out")).find("epoch 2/") != std::string::npos; }));
  kill(child, SIGUSR1);
  EXPECT_NE(end_of(child).code, 0);
  EXPECT_LT(checkpoint("parts").position.epoch, 40);
  trained(cluster(2, "train --resume parts --json"));
  expect_same_state(checkpoint("whole"), checkpoint("parts"));
}

TEST_F(Cluster, KilledWithinAnEpochItGoesOnFromThereToTheBit) {
  const std::string options = train("--model logistic --data like-w8a --batch 8 --sync sma-paper ");
  const json whole = trained(cluster(2, options + "--json --out whole"));
  const pid_t child = start("exec " + mpirun(2) + options + "--save-every 1e-9 --out parts");
  const auto is_within = [&] {
    return std::filesystem::exists(path("parts") / "checkpoint") &&
           checkpoint("parts").position.batch > 0;
  };
  pid_t last = 0;
  ASSERT_TRUE(comes([&] {
    if (!is_within() || ranks().empty()) return false;
    last = ranks().back();
    kill(last, SIGSTOP);  // without whom nothing more is saved
    if (!is_within()) kill(last, SIGCONT);
    return is_within();
  }));
  kill(last, SIGKILL);
  EXPECT_NE(end_of(child).code, 0);
  EXPECT_TRUE(is_within());
  const json parts = trained(cluster(2, "train --resume parts --json"));
  expect_same_state(checkpoint("whole"), checkpoint("parts"));
  for (size_t e = 0; e < 2; ++e) {
    EXPECT_EQ(parts["history"][e]["train_loss"], whole["history"][e]["train_loss"]);
  }
}

TEST_F(Cluster, GoesOnWithAnotherNumberOfRanks) {
  EXPECT_EQ(trained(cluster(2, train("--model resnet-20 --json --out run")))["lr_factor"], 2);
  const json three = trained(cluster(3, "train --resume run --epochs 3 --json"));
  EXPECT_EQ(three["ranks"], 3);
  EXPECT_EQ(three["lr_factor"], 3);
  const json one = trained(crossbow("train --resume run --epochs 4 --json"));
  EXPECT_EQ(one["history"].size(), 4u);
  EXPECT_EQ(one["lr_factor"], 1);
  EXPECT_EQ(checkpoint("run").position.engine.exchanges, 4 * 11);
  trained(cluster(2, "train --resume run --epochs 5 --json"));
  EXPECT_EQ(checkpoint("run").position.engine.exchanges, 5 * 6);
}

TEST_F(Cluster, GoesOnWithRunsThatLookedForLearners) {
  const std::string data = "train --model logistic --batch 4 --data " + data_.spec();
  trained(crossbow(data + " --epochs 2 --out run --json"));
  const json two = trained(cluster(2, "train --resume run --epochs 3 --json"));
  EXPECT_EQ(two["ranks"], 2);
  EXPECT_EQ(two["lr_factor"], 2.0 * two["learners"].get<int>());
  EXPECT_EQ(trained(crossbow("train --resume run --epochs 4 --json"))["epochs"], 4);

  trained(cluster(2, data + " --epochs 1 --out ranks --json"));
  EXPECT_EQ(trained(crossbow("train --resume ranks --epochs 2 --json"))["epochs"], 2);
}

/// One learner alone makes many steps of sparse rows at a time, which several that average cannot.
TEST_F(Cluster, GoesOnWithinAnEpochOfSparseRows) {
  std::string rows;
  for (int i = 0; i < 3000; ++i) rows += fmt::format("{} {}:1 300:1\n", i % 2, 1 + i % 200);
  std::ofstream(path("rows.t")) << rows;
  std::ofstream(path("rows")) << rows;
  const std::string options =
      "train --model logistic --data libsvm:rows --batch 1 --learners 1 --sync ssgd --epochs "
      "1000000 ";
  const pid_t child = start("exec " + crossbow_binary() + ' ' + options + "--out run");
  EXPECT_TRUE(comes([&] { return text_of(path("out")).find("epoch 2/") != std::string::npos; }));
  kill(child, SIGINT);
  EXPECT_EQ(end_of(child).code, 130);
  const Position before = checkpoint("run").position;
  const pid_t ranks = start("exec " + mpirun(2) + "train --resume run");
  EXPECT_TRUE(comes([&] { return checkpoint("run").position.epoch > before.epoch; }));
  kill(ranks, SIGUSR1);
  end_of(ranks);
  const Position after = checkpoint("run").position;
  EXPECT_GT(before.batch_rows, 1);
  EXPECT_EQ(after.batch_rows, 1);
  EXPECT_GT(after.epoch, before.epoch);
  trained(crossbow(fmt::format("train --resume run --epochs {} --json", after.epoch + 1)));
}

/// A stopped run goes on where each node was, or with what was evaluated where there are others.
TEST_F(Cluster, AsynchronousNodesTrainOnEachRowOnce) {
  for (const std::string sync : {"gossip-push", "gossip-pull", "sgp", "ad-psgd", "downpour",
                                 "async-easgd", "async-eamsgd"}) {
    SCOPED_TRACE(sync);
    const auto rows = [](const json& run) {
      int64_t sum = 0;
      for (const json& node : run["nodes"]) sum += node["rows"].get<int64_t>();
      return sum;
    };
    const json two = trained(cluster(
        2, free("--model resnet-20 --save-every 1e-9 --json --out " + sync + " --sync " + sync)));
    EXPECT_EQ(two["nodes"].size(), 2u);
    EXPECT_EQ(rows(two), 2 * 176);
    EXPECT_EQ(checkpoint(sync).position.step, 2 * 6);  // of two nodes; epochs have eleven batches
    const json longer = trained(cluster(2, "train --json --epochs 4 --resume " + sync));
    EXPECT_EQ(rows(longer), 4 * 176);
    EXPECT_EQ(longer["nodes"].size(), 2u);
    const json three = trained(cluster(3, "train --json --epochs 5 --resume " + sync));
    EXPECT_EQ(rows(three), 176);
    const json one = trained(crossbow("train --json --epochs 6 --resume " + sync));
    EXPECT_EQ(one["history"].size(), 6u);
  }
}

/// Of a run that was stopped in between, too.
TEST_F(Cluster, OneProcessRepeatsAsynchronousRanksToTheBit) {
  const auto repeats = [&](int ranks, const std::string& sync, const std::string& options) {
    const std::string run = fmt::format("{}-{}", sync, ranks);
    SCOPED_TRACE(run);
    const std::string all = "--model resnet-20 --lr-schedule fixed --save-every 1e-9 " + options;
    trained(cluster(ranks, free(all + " --json --out " + run + " --sync " + sync)));
    const json before = trained(cluster(ranks, "train --json --epochs 3 --resume " + run));
    const json again = trained(crossbow("train --json --replay " + run + " --out " + run + "-2"));
    EXPECT_EQ(again["ranks"], ranks);
    for (size_t e = 0; e < 3; ++e) {
      for (const char* key : {"train_loss", "test_loss", "test_accuracy", "distance"}) {
        EXPECT_EQ(again["history"][e][key], before["history"][e][key]) << key << ' ' << e;
      }
    }
    expect_same_state(checkpoint(run), checkpoint(run + "-2"));
  };
  for (const std::string sync : {"gossip-push", "gossip-pull", "sgp", "ad-psgd", "downpour",
                                 "async-easgd", "async-eamsgd"}) {
    repeats(3, sync, "");
    repeats(2, sync, "--learners 2");
  }
  const Outcome third = crossbow("train --json --replay sgp-2-2 --out third");
  expect_same_state(checkpoint("sgp-2"), (trained(third), checkpoint("third")));
}

/// Of a run that was resumed, too, where shares begin anew.
TEST_F(Cluster, OneProcessRepeatsSharesThatFollowSpeeds) {
  trained(cluster(2,
                  "train --json --model mlp:layers=1,width=256 --data digits --epochs 1 --out run "
                  "--learners 1 --threads-per-learner 1 --lr-schedule fixed --sync gossip-push "
                  "--straggler 1:4"));
  const json before = trained(cluster(2, "train --json --epochs 2 --resume run"));
  const RankTurns turns = read_rank_turns(path("run"), checkpoint("run").turns_bytes, 2, 1);
  const auto is_uneven = [](const RankTurns::Segment& segment) {
    return !segment.shares.empty() && segment.shares[0] != segment.shares[1];
  };
  EXPECT_TRUE(std::ranges::any_of(turns.segments, is_uneven));
  const json again = trained(crossbow("train --json --replay run --out again"));
  for (size_t e = 0; e < 2; ++e) {
    EXPECT_EQ(again["history"][e]["train_loss"], before["history"][e]["train_loss"]) << e;
  }
  expect_same_state(checkpoint("run"), checkpoint("again"));
}

TEST_F(Cluster, RefusesToRepeatWhatHasNoOrder) {
  const auto refused = [&](const Outcome& o, int code, const std::string& sentence) {
    EXPECT_EQ(o.code, code) << o.err;
    expect_says(o.err, sentence);
  };
  trained(cluster(2, free("--model logistic --json --out run --sync gossip-push")));
  refused(cluster(2, "train --replay run --out again"), 2, "it is of nodes of one process");
  refused(crossbow("train --replay run --epochs 5"), 2, "the run to repeat has 2");
  trained(crossbow("train --json --replay run --out again"));
  refused(crossbow("train --resume again --epochs 3"), 2, "begin it anew");

  const std::string turns = text_of(path("run") / "turns");
  const auto write = [&](const std::string& text) { std::ofstream(path("run") / "turns") << text; };
  const std::string damaged = "turns is missing or damaged";
  const size_t batches = turns.find("segments\":[[") + std::string("segments\":[[").size();
  for (const size_t at : {size_t{0}, turns.find("events"), batches, turns.size() - 1}) {
    std::string odd = turns;
    odd[at] = static_cast<char>(odd[at] ^ 1);
    write(odd);
    refused(crossbow("train --replay run --out odd"), 1, damaged);
  }
  write(turns.substr(0, turns.size() / 2));
  refused(crossbow("train --replay run --out odd"), 1, damaged);
  std::filesystem::remove(path("run") / "turns");
  refused(crossbow("train --replay run --out odd"), 1, damaged);

  trained(cluster(2, free("--model logistic --json --out more --sync gossip-push")));
  trained(cluster(3, "train --resume more --epochs 3 --json"));
  refused(crossbow("train --replay more --out odd"), 1, damaged);
}

TEST_F(Cluster, RankZeroAloneSpeaks) {
  const Outcome o = cluster(3, train("--model logistic --out run"));
  ASSERT_EQ(o.code, 0) << o.err;
  size_t summaries = 0;
  for (size_t at = o.out.find("next  "); at != std::string::npos; at = o.out.find("next  ", at + 1))
    ++summaries;
  EXPECT_EQ(summaries, 1u);
  expect_says(o.out, "1 learner of 1 thread on each of 3 ranks");
}

TEST_F(Cluster, RefusesWhatItCannotDoInOneSentence) {
  const auto refused = [&](const std::string& arguments, const std::string& sentence) {
    const Outcome o = cluster(2, arguments);
    EXPECT_EQ(o.code, 2) << o.err;
    expect_says(o.err, sentence);
    expect_one_complaint(o);
  };
  refused(train("--sync gossip-pull"), "nodes of 2 ranks meet as they are ready");
  refused(free("--sync hogwild"), "its nodes share memory");
  refused(free("--sync elastic-gossip"), "its nodes share memory");
  refused(free("--sync downpour --staleness 3"), "it is of nodes of one process");
  refused(train("--sync none"), "2 ranks need an algorithm by which they agree");
  refused(train("--clock virtual"), "that of 2 ranks is the real one");
  refused(train("--model logistic --learners 6"), "of 2 ranks they are more than the 11 batches");
  refused(train("--batch 0"), "--batch 0");
  refused(train("--batch many"), "'many' is not a whole number");
  refused(train("--retune"), "with --learners there is no number");
}

TEST_F(Cluster, UnlikeRanksSayWhichIsUnlike) {
  const auto all = [&](const std::string& own) {
    return "train --model logistic --learners 1 " + (own.empty() ? "--data " + data_.spec() : own);
  };
  const auto refused = [&](const std::string& first, const std::string& second,
                           const std::string& sentence, const std::string& variable = "",
                           int code = 1) {
    const std::string program = crossbow_binary() + ' ';
    const Outcome o = shell(launcher() + " -n 1 " + program + all(first) + " : -n 1 env " +
                            variable + ' ' + program + all(second));
    EXPECT_EQ(o.code, code) << o.err;
    expect_says(o.err, sentence);
    expect_one_complaint(o);
  };
  refused("", "--batch 8 --data " + data_.spec(), "the ranks are not alike: --batch is 16 on ");
  refused("", "--data digits", "the number of training samples is 176 on ");
  refused("", "--data mnist:nowhere", "rank 1 on ");
  refused("", "--batches 8", "rank 1 on ", "", 2);
  if (std::string_view(loops().name) != "plain") {
    refused("", "", "the ranks are not alike: the instruction set of the loops is ",
            "CROSSBOW_ISA=plain");
  }
  std::filesystem::copy(data_.path(), path("other"));
  data::FileBytes labels;
  for (uint8_t i = 1; i <= 176; ++i) labels.push_back(i % 10);
  data::write_file(path("other/train-labels-idx1-ubyte"), data::idx_file({176}, labels));
  refused("", "--data mnist:other", "the checksum of the training labels is ");
}

TEST_F(Cluster, ALossThatIsNotFiniteEndsAllInOneSentence) {
  for (const std::string sync : {"sma", "ssgd", "gossip-push"}) {
    SCOPED_TRACE(sync);
    const Outcome o = cluster(2, free("--model logistic --lr 1e38 --sync " + sync));
    EXPECT_EQ(o.code, 1) << o.err;
    expect_says(o.err, "the loss became ");
    expect_one_complaint(o);
  }
}

TEST_F(Cluster, RanksShareOutTheCoresThatTheyMayUse) {
  if (physical_cores() < 2) GTEST_SKIP() << "of one core there is nothing to share";
  const std::string tiny = "train --model logistic --epochs 1 --json --data " + data_.spec();
  const std::string two = fmt::format("taskset -c {},{} ", core_cpus()[0], core_cpus()[1]);
  EXPECT_EQ(trained(shell(two + mpirun(2) + tiny))["learners"], 1);
}

/// First the checkpoint has no room, then the log has none any more.
TEST_F(Cluster, AFullDiskOnRank0EndsAllInOneSentence) {
  if (std::getenv("CROSSBOW_MPIRUN")) GTEST_SKIP() << "another MPI may write files of its own";
  for (const std::string sync : {"sma", "gossip-push"}) {
    for (const auto& [blocks, file] :
         {std::pair(4, "checkpoint"), std::pair(40, "metrics.jsonl")}) {
      SCOPED_TRACE(sync + ' ' + file);
      const std::string run = sync + '-' + file;
      const std::string command =
          crossbow_binary() + ' ' +
          free("--model mlp:layers=1,width=1 --log-every 1 --epochs 2000 --sync " + sync +
               " --out " + run);
      const Outcome o = shell(fmt::format("{} -n 1 bash -c 'ulimit -f {}; exec {}' : -n 1 {}",
                                          launcher(), blocks, command, command));
      EXPECT_EQ(o.code, 1) << o.err;
      expect_says(o.err, fmt::format("cannot write {}/{} (File too large): make room", run, file));
      expect_one_complaint(o);
      if (blocks > 4) {
        EXPECT_GE(checkpoint(run).position.epoch, 1);
      }
    }
  }
}

TEST_F(Cluster, WithoutSurvivorsNobodyTakesTheirPlace) {
  if (std::getenv("CROSSBOW_MPIRUN")) GTEST_SKIP() << "of Debian's MPI";
  for (const std::string option : {"--spares 1", "--min-ranks 2", "--min-ranks 3"}) {
    const Outcome o = cluster(2, free(option));
    EXPECT_EQ(o.code, 2) << o.err;
    expect_says(o.err, option + ": by this MPI or its launcher a lost rank ends the others");
    expect_one_complaint(o);
  }
}

/// While the other one stands still.
TEST_F(Cluster, ARankThatWaitsUsesLittleOfACore) {
  constexpr double kLittle = 0.05;
  for (const std::string sync : {"sma", "ssgd", "gossip-push"}) {
    const pid_t child =
        start("exec " + mpirun(2) +
              free("--model logistic --epochs 1000000 --sync " + sync + " --out " + sync));
    ASSERT_TRUE(comes([&] { return std::filesystem::exists(path(sync) / "checkpoint"); }));
    const std::vector<pid_t> both = ranks();
    ASSERT_EQ(both.size(), 2u);
    kill(both[1], SIGSTOP);
    // Once its own share of the segment is done, and it has waited for a while.
    constexpr int kSeconds = 2;
    std::vector<double> shares;
    do {
      const double before = seconds_of(both[0]);
      std::this_thread::sleep_for(std::chrono::seconds(kSeconds));
      shares.push_back((seconds_of(both[0]) - before) / kSeconds);
    } while (shares.size() < 45 && shares.back() >= kLittle);
    EXPECT_LT(shares.back(), kLittle) << sync << ", before: " << ::testing::PrintToString(shares);
    kill(both[1], SIGCONT);
    kill(child, SIGTERM);
    end_of(child);
  }
}

TEST_F(Cluster, ALostRankEndsTheRunWhoseCheckpointStays) {
  const pid_t child =
      start("exec " + mpirun(2) + train("--model resnet-20 --epochs 100000 --out run"));
  EXPECT_TRUE(comes([&] { return text_of(path("out")).find("epoch 3/") != std::string::npos; }));
  kill(ranks().back(), SIGKILL);
  EXPECT_NE(end_of(child).code, 0);
  EXPECT_GE(checkpoint("run").position.epoch, 2);
}

}  // namespace
}  // namespace crossbow::testing
