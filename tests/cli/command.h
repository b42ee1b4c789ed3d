// The built program, run as a script runs it.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "data/files.h"
#include "support/paths.h"
#include "train/tiny_run.h"

namespace crossbow::testing {

struct Outcome {
  int code = 0;
  std::string out, err;
};

inline std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

class CommandTest : public ::testing::Test {
 protected:
  /// Runs `crossbow ARGUMENTS` in an empty folder, where it also finds its caches.
  Outcome crossbow(const std::string& arguments) const {
    return shell(crossbow_binary() + ' ' + arguments);
  }
  Outcome shell(const std::string& command) const {
    const std::string in_folder = "cd " + folder() +
                                  " && export XDG_CACHE_HOME=$PWD OMP_WAIT_POLICY=passive && { " +
                                  command + "\n} >out 2>err";
    Outcome outcome;
    const int status = std::system(in_folder.c_str());
    outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    outcome.out = text_of(path("out"));
    outcome.err = text_of(path("err"));
    return outcome;
  }
  std::string folder() const { return work_.path().string(); }
  std::filesystem::path path(const std::string& name) const { return work_.path() / name; }
  /// A run of a few steps; of an option given twice, the last counts.
  std::string tiny(const std::string& more = "") const {
    return "train --model logistic --device ref --learners 1 --threads-per-learner 1 --epochs 2 "
           "--data " +
           data_.spec() + ' ' + more;
  }

  TinyData data_;
  data::TemporaryFolder work_;
};

inline void expect_in(const std::string& part, const std::string& text) {
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, part, text);
}

}  // namespace crossbow::testing
