// Streams that are closed, full or a terminal, limits on files, and signals.
#include <pty.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/program.h"
#include "data/cifar_files.h"

namespace crossbow::testing {
namespace {

using nlohmann::json;

class Streams : public ProgramTest {
 protected:
  /// A run without end that a signal is sent to.
  Outcome stopped_by(int signal) {
    const pid_t child =
        start("exec " + crossbow_binary() + ' ' + tiny("--epochs 1000000000 --out run"));
    EXPECT_TRUE(comes([&] { return text_of(path("out")).find("epoch 2/") != std::string::npos; }));
    kill(child, signal);
    return end_of(child);
  }
  void expect_saved() {
    EXPECT_EQ(crossbow("train --resume run --epochs 1").code, 0) << text_of(path("err"));
  }

  /// What a run prints on a terminal of that kind in a second at least, and until it has trained.
  std::string on_terminal(const std::string& term) {
    int terminal = -1;
    const pid_t child = forkpty(&terminal, nullptr, nullptr, nullptr);
    if (child == 0) {
      become_shell("TERM=" + term + " exec " + crossbow_binary() + ' ' +
                   tiny("--epochs 1000000000 --out " + term));
    }
    std::string text;
    char bytes[4096];
    const auto begin = std::chrono::steady_clock::now();
    bool asked = false;
    for (ssize_t n = 0; (n = read(terminal, bytes, sizeof bytes)) > 0;) {
      text.append(bytes, static_cast<size_t>(n));
      const bool trains = text.find(": loss") != std::string::npos;
      const auto took = std::chrono::steady_clock::now() - begin;
      if (asked || !trains || took < std::chrono::seconds(1)) continue;
      kill(child, SIGINT);
      asked = true;
    }
    EXPECT_EQ(wait_for(child), 128 + SIGINT);
    close(terminal);
    return text;
  }
};

TEST_F(Streams, SignalsSaveAndGiveTheirExitCode) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const Outcome o = stopped_by(signal);
    EXPECT_EQ(o.code, 128 + signal);
    expect_says(o.err, "interrupted; go on with crossbow train --resume run\n");
    expect_saved();
    std::filesystem::remove_all(path("run"));
    std::filesystem::remove(path("out"));
  }
}

/// `timeout` sends its signal to the program and then to the group that both are in.
TEST_F(Streams, ATimeLimitSavesToo) {
  const Outcome o = shell("timeout 5 " + crossbow_binary() + ' ' +
                          tiny("--model mlp:width=256 --epochs 1000000000 --out run"));
  EXPECT_EQ(o.code, 124) << o.err;
  expect_says(o.err, "interrupted; go on with crossbow train --resume run\n");
  expect_saved();
}

/// The choice takes many seconds for a net like this.
TEST_F(Streams, SignalsEndTheChoiceOfKernelsToo) {
  data::write_cifar10(path("cifar10"), 4);
  const std::string train = " train --model vgg-16 --data cifar10:cifar10 --learners 1 --out run";
  const pid_t child = start("exec " + crossbow_binary() + train);
  EXPECT_TRUE(
      comes([&] { return text_of(path("out")).find("choosing kernels") != std::string::npos; }));
  kill(child, SIGTERM);
  const Outcome o = end_of(child);
  EXPECT_EQ(o.code, 128 + SIGTERM) << o.err;
  expect_says(o.err, "interrupted; go on with crossbow train --resume run\n");
  EXPECT_EQ(o.out.find("\nepoch "), std::string::npos) << o.out;
  // There is something left to choose: the signal has ended it, and nothing is remembered that was
  // not timed.
  std::filesystem::remove(path("out"));
  const pid_t again = start("exec " + crossbow_binary() + " train --resume run");
  EXPECT_TRUE(
      comes([&] { return text_of(path("out")).find("choosing kernels") != std::string::npos; }));
  kill(again, SIGINT);
  EXPECT_EQ(wait_for(again), 128 + SIGINT);
}

TEST_F(Streams, AHangUpThatIsIgnoredStaysSo) {
  const pid_t child =
      start("trap '' HUP; exec " + crossbow_binary() + ' ' + tiny("--epochs 1000000000 --out run"));
  ASSERT_TRUE(comes([&] { return text_of(path("out")).find("epoch 2/") != std::string::npos; }));
  kill(child, SIGHUP);
  const size_t length = text_of(path("out")).size();
  EXPECT_TRUE(comes([&] { return text_of(path("out")).size() > length + 1000; }));
  kill(child, SIGTERM);
  EXPECT_EQ(wait_for(child), 128 + SIGTERM);
}

TEST_F(Streams, AClosedPipeSavesAndEnds) {
  const Outcome o = shell("{ " + crossbow_binary() + ' ' +
                          tiny("--epochs 1000000000 --out run; echo $? >code; } | head -n 1"));
  EXPECT_EQ(text_of(path("code")), "1\n");
  EXPECT_EQ(std::count(o.out.begin(), o.out.end(), '\n'), 1) << o.out;
  expect_says(o.err, "standard output takes no more, so the run was saved and ended; go on with");
  expect_saved();
}

TEST_F(Streams, AFullDiskBehindStandardOutputIsAFailure) {
  for (const char* arguments : {"--help", "--version", "train --help", "models", "data --json"}) {
    const Outcome o = crossbow(std::string(arguments) + " >/dev/full");
    EXPECT_EQ(o.code, 1) << arguments;
    expect_says(o.err, "cannot write to standard output (No space left on device)");
  }
  EXPECT_EQ(crossbow(tiny(">/dev/full")).code, 1);
  EXPECT_EQ(crossbow(tiny("--json >/dev/full")).code, 1);
}

TEST_F(Streams, StandardErrorMayBeLost) {
  for (const char* lost : {"2>&-", "2>/dev/full"}) {
    const Outcome o = crossbow(tiny(std::string("--json ") + lost));
    EXPECT_EQ(o.code, 0) << lost;
    EXPECT_EQ(json::parse(o.out)["history"].size(), 2u) << lost;
    EXPECT_EQ(crossbow(std::string("trian ") + lost).code, 2) << lost;
  }
}

TEST_F(Streams, FilesDoNotTakeThePlaceOfClosedStreams) {
  ASSERT_EQ(crossbow(tiny("--out run --log-every 1 <&- >&- 2>&-")).code, 0);
  std::istringstream metrics(text_of(path("run/metrics.jsonl")));
  int lines = 0;
  for (std::string line; std::getline(metrics, line); ++lines) {
    EXPECT_TRUE(json::accept(line)) << line;
  }
  EXPECT_EQ(lines, 2 * 5 + 2);  // steps and epochs
}

TEST_F(Streams, ALimitOnFileSizesIsASentence) {
  const Outcome o = shell("ulimit -f 4; " + crossbow_binary() + ' ' + tiny("--out run"));
  EXPECT_EQ(o.code, 1);
  expect_says(o.err, "File too large");
}

TEST_F(Streams, OnlyATerminalThatUnderstandsThemGetsControlSequences) {
  EXPECT_NE(on_terminal("xterm").find("\033[K"), std::string::npos);
  const std::string dumb = on_terminal("dumb");
  EXPECT_EQ(dumb.find('\033'), std::string::npos);
  expect_says(dumb, "epoch 1/1000000000: loss");
}

TEST_F(Streams, APipeHearsOfALongEpoch) {
  const pid_t child = start("exec " + crossbow_binary() +
                            " train --model mlp:width=1024 --learners 1 --threads-per-learner 1");
  EXPECT_TRUE(comes([&] { return text_of(path("out")).find(" %, loss ") != std::string::npos; }))
      << text_of(path("out"));
  kill(child, SIGINT);
  EXPECT_EQ(wait_for(child), 128 + SIGINT);
  expect_says(text_of(path("out")), "\nepoch 1/10: ");
}

/// A processor without bf16 is told of in a note, which nobody can read here.
TEST_F(Streams, ANoteThatCannotBeWrittenEndsNothing) {
  ASSERT_EQ(crossbow(tiny("--device cpu --out run")).code, 0) << text_of("err");
  for (const char* command : {"eval run", "bench --model logistic --seconds 0.1"}) {
    const Outcome o = shell("ONEDNN_MAX_CPU_ISA=AVX2 " + crossbow_binary() + ' ' + command +
                            " --device cpu --precision bf16 2>/dev/full");
    EXPECT_EQ(o.code, 0) << command;
    EXPECT_NE(o.out, "") << command;
  }
}

}  // namespace
}  // namespace crossbow::testing
