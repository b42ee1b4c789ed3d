// crossbow data fetch, from a server on the loopback device.
#include <pty.h>

#include <nlohmann/json.hpp>

#include "cli/program.h"
#include "data/file_server.h"

namespace crossbow::testing {
namespace {

class FetchCommand : public ProgramTest {
 protected:
  FetchCommand() : ProgramTest() {}

  std::string from_server(const std::string& arguments) const {
    return crossbow_binary() + " data fetch " + arguments + " --from " + server_.url("sets");
  }
  /// Begins to fetch a file that never comes whole.
  void stop_half_way() {
    server_.put("sets/train-images-idx3-ubyte.gz",
                {.body = std::string(9'912'422, 'x'), .cuts = {kHalf}, .hangs = true});
  }
  bool half_is_there() const {
    std::error_code none;
    return std::filesystem::file_size(path(kPart), none) == kHalf;
  }

  static constexpr size_t kHalf = 5'000'000;
  static constexpr const char* kPart = "mnist/train-images-idx3-ubyte.gz.part";
  const data::NoProxy no_proxy_;
  data::FileServer server_;
};

TEST_F(FetchCommand, RefusesWhatItDoesNotKnow) {
  const auto refused = [&](const std::string& arguments, const std::string& sentence) {
    const Outcome o = crossbow("data " + arguments);
    EXPECT_EQ(o.code, 2) << arguments;
    expect_says(o.err, sentence);
    EXPECT_EQ(o.out, "");
  };
  refused("fetch cifar1", "there are mnist, cifar10, cifar100; did you mean 'cifar10'?");
  refused("fetch digits", "no set 'digits' can be fetched");
  refused("fetch", "crossbow data fetch: name is required");
  refused("fecth mnist", "did you mean 'fetch'?");
  refused("fetch mnist a b", "crossbow data fetch: 'b' is not understood");
  refused("fetch mnist --form x", "did you mean '--from'?");
  refused("fetch mnist --from --json", "--from: its value is missing");
  refused("fetch mnist --from file:///etc", "--from 'file:///etc': it must begin with https://");
  refused("--json fetch mnist", "data fetch --json");
}

TEST_F(FetchCommand, AFailureIsASentence) {
  const Outcome o = shell(from_server("mnist --json"));
  EXPECT_EQ(o.code, 1);
  EXPECT_EQ(o.out, "");
  expect_says(o.err, "crossbow data fetch: cannot fetch " +
                         server_.url("sets/train-images-idx3-ubyte.gz") + " (HTTP status 404)");
}

TEST_F(FetchCommand, LooksWhereTrainingLooks) {
  for (const char* before : {"CROSSBOW_DATA= ", "CROSSBOW_DATA=sets "}) {
    EXPECT_EQ(shell(before + from_server("cifar10")).code, 1);
  }
  EXPECT_TRUE(std::filesystem::is_directory(path("data/cifar10")));
  EXPECT_TRUE(std::filesystem::is_directory(path("sets/cifar10")));
  expect_says(server_.requests()[0], "sets/cifar-10-binary.tar.gz");
}

TEST_F(FetchCommand, ASignalKeepsWhatHasCome) {
  stop_half_way();
  const pid_t child = start("exec " + from_server("mnist mnist"));
  EXPECT_TRUE(comes([&] { return half_is_there(); }));
  kill(child, SIGINT);
  const Outcome o = end_of(child);
  EXPECT_EQ(o.code, 128 + SIGINT);
  EXPECT_EQ(o.out, "");
  EXPECT_EQ(o.err,
            "crossbow data fetch: interrupted; the same command goes on with what has come\n");
  EXPECT_TRUE(half_is_there());

  server_.put("sets/train-images-idx3-ubyte.gz", {.status = 404});
  EXPECT_EQ(shell(from_server("mnist mnist")).code, 1);
  EXPECT_EQ(server_.requests().back(), "sets/train-images-idx3-ubyte.gz " + std::to_string(kHalf));
}

TEST_F(FetchCommand, ATerminalSeesTheProgress) {
  stop_half_way();
  int terminal = -1;
  const pid_t child = forkpty(&terminal, nullptr, nullptr, nullptr);
  if (child == 0) become_shell("TERM=xterm exec " + from_server("mnist mnist"));
  std::string text;
  char bytes[4096];
  bool asked = false;
  for (ssize_t n = 0; (n = read(terminal, bytes, sizeof bytes)) > 0;) {
    text.append(bytes, static_cast<size_t>(n));
    if (asked || text.find(" 50 %") == text.npos) continue;
    kill(child, SIGINT);
    asked = true;
  }
  EXPECT_EQ(wait_for(child), 128 + SIGINT);
  close(terminal);
  expect_says(text, "train-images-idx3-ubyte.gz [");
  expect_says(text, "interrupted; the same command goes on with what has come");
}

TEST_F(FetchCommand, SaysWhatIsThere) {
  const auto folder = data::real_data("mnist");
  if (folder.empty()) GTEST_SKIP() << "no MNIST here";
  std::filesystem::create_directory(path("data"));
  std::filesystem::create_symlink(std::filesystem::absolute(folder), path("data/mnist"));
  const std::string run = "CROSSBOW_DATA= " + from_server("mnist");
  const Outcome plain = shell(run);
  EXPECT_EQ(plain.code, 0) << plain.err;
  EXPECT_EQ(plain.out, "mnist is in data/mnist (was there already): crossbow train --data mnist\n");
  const auto object = nlohmann::json::parse(shell(run + " --json").out);
  EXPECT_EQ(object["name"], "mnist");
  EXPECT_EQ(object["folder"], "data/mnist");
  EXPECT_EQ(object["files"].size(), 4u);
  EXPECT_EQ(object["files"][3], "data/mnist/t10k-labels-idx1-ubyte.gz");
  EXPECT_EQ(object["bytes"], 0);
  EXPECT_TRUE(server_.requests().empty());
}

}  // namespace
}  // namespace crossbow::testing
