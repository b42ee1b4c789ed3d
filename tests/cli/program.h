// The built program in a folder of its own, started by a shell.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>

#include "support/paths.h"
#include "support/text.h"
#include "train/tiny_run.h"

namespace crossbow::testing {

class ProgramTest : public ::testing::Test {
 protected:
  struct Outcome {
    int code = 0;  // of the exit, or less than 0: minus the signal that has ended the process
    std::string out, err;
  };

  explicit ProgramTest(uint32_t training_images = 70) : data_(training_images) {}

  /// For runs over MPI, which keeps memory to the end: LeakSanitizer would change a rank's exit
  /// status.
  static void look_for_no_leaks() {
    const char* const options = std::getenv("ASAN_OPTIONS");
    const std::string all = std::string(options ? options : "") + ":detect_leaks=0";
    setenv("ASAN_OPTIONS", all.c_str(), 1);
  }

  /// `crossbow ARGUMENTS`, whose streams may be redirected by what follows the arguments.
  Outcome crossbow(const std::string& arguments) const {
    return shell(crossbow_binary() + ' ' + arguments);
  }
  Outcome shell(const std::string& command) const { return end_of(start(command)); }
  /// Without waiting; `exec` in front of a single command makes it the process itself. `prepare` is
  /// called in the process before anything else.
  pid_t start(
      const std::string& command, const std::function<void()>& prepare = [] {}) const {
    const pid_t child = fork();
    if (child < 0) throw std::runtime_error("no process");
    if (child == 0) {
      for (const int s : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) signal(s, SIG_DFL);
      prepare();
      become_shell("{ " + command + "\n} >out 2>err");
    }
    return child;
  }
  /// In the test's folder, where the program also finds its caches.
  [[noreturn]] void become_shell(const std::string& command) const {
    const std::string whole = "cd '" + path("").string() +
                              "' && export XDG_CACHE_HOME=$PWD OMP_WAIT_POLICY=passive && " +
                              command;
    execl("/bin/sh", "sh", "-c", whole.c_str(), static_cast<char*>(nullptr));
    _exit(127);
  }
  /// Of what `start` has started.
  Outcome end_of(pid_t child, std::chrono::seconds limit = kLongest) const {
    const int code = wait_for(child, limit);
    return {code, text_of(path("out")), text_of(path("err"))};
  }
  /// The code of the outcome. A process that hangs beyond the limit is killed.
  static int wait_for(pid_t child, std::chrono::seconds limit = kLongest) {
    const auto end = std::chrono::steady_clock::now() + limit;
    int status = 0;
    pid_t ended = 0;
    while ((ended = waitpid(child, &status, WNOHANG)) == 0) {
      if (std::chrono::steady_clock::now() > end) {
        ADD_FAILURE() << "still running after " << limit.count() << " s";
        kill(child, SIGKILL);
        ended = waitpid(child, &status, 0);
        break;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    EXPECT_EQ(ended, child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  /// That `crossbow train` has said what is wrong, and only once.
  static void expect_one_complaint(const Outcome& o) {
    const size_t first = o.err.find("crossbow train:");
    EXPECT_NE(first, o.err.npos) << o.err;
    EXPECT_EQ(o.err.rfind("crossbow train:"), first) << o.err;
  }
  /// False if it has not come true after a minute and a half.
  template <typename Condition>
  static bool comes(const Condition& condition) {
    for (int i = 0; i < 900; ++i) {
      if (condition()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    return false;
  }

  std::filesystem::path path(const std::string& name) const { return work_.path() / name; }

  /// A run of a few steps; of an option given twice, the last counts.
  std::string tiny(const std::string& more = "") const {
    return "train --model logistic --device ref --learners 1 --threads-per-learner 1 --epochs 2 "
           "--data " +
           data_.spec() + ' ' + more;
  }

  static constexpr std::chrono::seconds kLongest{540};  // a little less than CTest waits
  const TinyData data_;
  const data::TemporaryFolder work_;
};

}  // namespace crossbow::testing
