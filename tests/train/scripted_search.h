// Runs that search for their number of learners, where a script says how fast each number is.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "core/machine.h"
#include "support/text.h"
#include "train/tiny_run.h"
#include "train/trainer.h"

namespace crossbow::testing {

/// Says that so many learners are that fast, once in an epoch of five batches: at its end.
class Script : public Throughput {
 public:
  explicit Script(std::map<int64_t, double> rates) : rates_(std::move(rates)) {}
  void begin_segment() override { told_ = false; }
  std::optional<double> window(int64_t done, int64_t learners) override {
    if (done < 5 || told_ || !rates_.contains(learners)) return {};
    told_ = true;
    return rates_.at(learners);
  }

 private:
  const std::map<int64_t, double> rates_;
  bool told_ = false;
};

inline const std::map<int64_t, double> kNone, kTwoAreFaster = {{1, 10}, {2, 20}},
                                              kTwoAreSlow = {{1, 10}};

/// Of one learner or two, as a script decides.
class ScriptedSearch : public ::testing::Test {
 protected:
  void SetUp() override {
    if (physical_cores() == 1) GTEST_SKIP() << "one core leaves nothing to choose";
  }
  std::string folder(const std::string& run) { return (runs_.path() / run).string(); }

  TrainOptions options(const std::string& run, int64_t epochs) {
    TrainOptions o = tiny_options(data_, "ref");
    o.model = kOwnModel;
    o.sync = "sma";
    o.deterministic = false;
    o.retune = true;  // whatever another run found
    o.out = folder(run);
    o.epochs = epochs;
    return o;
  }
  void run(const TrainOptions& o, const std::map<int64_t, double>& rates, Observer& observer) {
    Script script(rates);
    train_graph([](const ModelSpec& spec) { return classifier(kOwnModel, tiny_net, spec); }, o,
                Recipe{}, script, observer);
  }
  void go_on(const std::string& run_name, int64_t epochs, const std::map<int64_t, double>& rates) {
    TrainOptions o = options(run_name, epochs);
    o.retune = false;
    o.resume = o.out;
    Observer silent;
    run(o, rates, silent);
  }
  /// A copy of the run in which that checkpoint is the newest.
  std::string crashed(const std::string& run_name, const std::string& checkpoint) {
    const std::string name = "crashed" + std::to_string(++copies_);
    std::filesystem::copy(folder(run_name), folder(name), std::filesystem::copy_options::recursive);
    std::filesystem::copy_file(checkpoint, folder(name) + "/checkpoint",
                               std::filesystem::copy_options::overwrite_existing);
    return name;
  }
  std::string lines(const std::string& run_name) {
    return text_of(folder(run_name) + "/learners.jsonl");
  }

  TinyData data_;
  data::TemporaryFolder runs_;
  int copies_ = 0;
};

}  // namespace crossbow::testing
