// Runs of several learners that train the net of tiny_run.h into folders of their own.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <string>

#include "support/error_text.h"
#include "train/tiny_run.h"

namespace crossbow::testing {

class TinyLearners : public ::testing::Test {
 protected:
  virtual TrainOptions options(const std::string& run, const std::string& sync,
                               int64_t learners = 3) {
    TrainOptions o = tiny_options(data_, "cpu");
    o.deterministic = false;
    o.out = folder(run);
    o.sync = sync;
    o.learners = learners;
    return o;
  }
  std::string folder(const std::string& run) { return (runs_.path() / run).string(); }
  /// What train() says of changed options.
  std::string refusal(const std::string& sync, const std::function<void(TrainOptions&)>& change) {
    TrainOptions o = options("refused", sync);
    change(o);
    const std::string error = error_of([&] { train(tiny_net, o); });
    EXPECT_FALSE(std::filesystem::exists(folder("refused"))) << error;
    return error;
  }

  TinyData data_{176};  // eleven batches
  data::TemporaryFolder runs_;
};

}  // namespace crossbow::testing
