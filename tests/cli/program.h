// The built program in a folder of its own, started by a shell.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include "support/paths.h"
#include "train/tiny_run.h"

namespace crossbow::testing {

class ProgramTest : public ::testing::Test {
 protected:
  struct Outcome {
    int code = 0;  // as a shell counts: 128 and the signal for one that a signal has ended
    std::string out, err;
  };

  /// `crossbow ARGUMENTS`, whose streams may be redirected by what follows the arguments.
  Outcome crossbow(const std::string& arguments) {
    return shell(crossbow_binary() + ' ' + arguments);
  }
  Outcome shell(const std::string& command) {
    const pid_t child = start(command);
    return {wait_for(child), text_of("out"), text_of("err")};
  }
  /// Without waiting; `exec` in front of a single command makes it the process itself.
  pid_t start(const std::string& command) {
    const std::string whole = "cd " + work_.path().string() +
                              " && export XDG_CACHE_HOME=$PWD OMP_WAIT_POLICY=passive && { " +
                              command + "\n} >out 2>err";
    const pid_t child = fork();
    if (child == 0) {
      for (const int s : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) signal(s, SIG_DFL);
      execl("/bin/sh", "sh", "-c", whole.c_str(), static_cast<char*>(nullptr));
      _exit(127);
    }
    return child;
  }
  static int wait_for(pid_t child) {
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
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
  std::string text_of(const std::string& name) const {
    std::ifstream file(path(name));
    return {std::istreambuf_iterator<char>(file), {}};
  }
  bool exists(const std::string& name) const { return std::filesystem::exists(path(name)); }

  /// A run of a few steps.
  std::string tiny(const std::string& more = "") const {
    return "train --model logistic --device ref --learners 1 --threads-per-learner 1 --epochs 2 "
           "--data " +
           data_.spec() + ' ' + more;
  }

  TinyData data_;
  data::TemporaryFolder work_;
};

inline void expect_says(const std::string& text, const std::string& part) {
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, part, text);
}

}  // namespace crossbow::testing
