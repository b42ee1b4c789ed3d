// The engine on a device whose work is done late, in memory of its own: nothing may be used before
// it is there, and the bits are the host's.
#include "support/late_device.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "learner/quadratic.h"
#include "support/error_text.h"

namespace crossbow::testing {
namespace {

using Pace = LateOptions::Pace;

struct Outcome {
  std::vector<float> z, losses;
  std::vector<std::vector<float>> weights;
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

/// Two epochs, the first in two segments.
Outcome trained(QuadraticRun run, const char* device) {
  run.device = device;
  QuadraticData data;
  QuadraticEngine engine(run);
  engine->run(engine.segment(data, 0, 6));
  engine->run(engine.segment(data, 6, kBatches - 6));
  engine.run(data);
  Outcome outcome{engine.z(), engine.losses, {}};
  for (int j = 0; j < engine->learners(); ++j) outcome.weights.push_back(engine.weights(j));
  return outcome;
}

struct Case {
  const char* name;
  QuadraticRun run;
};

std::vector<Case> cases() {
  const auto with = [](QuadraticRun run, auto change) {
    change(run);
    return run;
  };
  const QuadraticRun sma{.sync = "sma-paper", .options = {.learners = 4, .momentum = 0.9}};
  const QuadraticRun ssgd = with(sma, [](auto& r) { r.sync = "ssgd"; });
  const QuadraticRun local = with(sma, [](auto& r) {
    r.sync = "local-sgd";
    r.options.period = 2;
  });
  return {
      {"one learner", {.sync = "none", .options = {.momentum = 0.9}}},
      {"one learner, clipped", {.sync = "none", .options = {.momentum = 0.9}, .clip_norm = 0.1}},
      {"one learner, in parts", {.sync = "none", .options = {.momentum = 0.9}, .splits = 3}},
      {"sma-paper", sma},
      {"sma, one worker", with(sma, [](auto& r) { r.workers = 1; })},
      {"sma, a worker a learner", with(sma, [](auto& r) { r.workers = 4; })},
      {"sma, more learners than batches a worker", with(sma,
                                                        [](auto& r) {
                                                          r.options.learners = 7;
                                                          r.workers = 3;
                                                        })},
      {"sma, every third step", with(sma, [](auto& r) { r.options.period = 3; })},
      {"sma, in parts", with(sma, [](auto& r) { r.splits = 2; })},
      {"sma, a net", with(sma, [](auto& r) { r.hidden = 3; })},
      {"sma, two devices", with(sma, [](auto& r) { r.devices = 2; })},
      {"sma, four devices", with(sma, [](auto& r) { r.devices = 4; })},
      {"sma, four devices, every second step", with(sma,
                                                    [](auto& r) {
                                                      r.devices = 4;
                                                      r.options.period = 2;
                                                    })},
      {"easgd", with(sma,
                     [](auto& r) {
                       r.sync = "easgd";
                       r.options.momentum = 0;
                     })},
      {"ssgd", ssgd},
      {"ssgd, clipped", with(ssgd, [](auto& r) { r.clip_norm = 0.1; })},
      {"ssgd, clipped, three devices", with(ssgd,
                                            [](auto& r) {
                                              r.clip_norm = 0.1;
                                              r.options.learners = 3;
                                              r.devices = 3;
                                            })},
      {"ssgd, in parts, two devices", with(ssgd,
                                           [](auto& r) {
                                             r.splits = 4;
                                             r.devices = 2;
                                           })},
      {"local-sgd", local},
      {"local-sgd, two devices", with(local, [](auto& r) { r.devices = 2; })},
      {"slowmo", with(local, [](auto& r) { r.sync = "slowmo"; })},
      {"polyak-ruppert", with(sma, [](auto& r) { r.sync = "polyak-ruppert"; })},
      {"polyak-ruppert, one learner", with(sma,
                                           [](auto& r) {
                                             r.sync = "polyak-ruppert";
                                             r.options.learners = 1;
                                           })},
  };
}

/// On the reference's kernels; a net's also on the CPU's.
void expect_same(const LateOptions& options) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const WithLateOptions late(options);
    const Outcome expected = trained(c.run, "ref"), found = trained(c.run, "late-ref");
    EXPECT_EQ(expected.losses, found.losses);
    EXPECT_TRUE(expected == found);
    EXPECT_TRUE(trained(c.run, "cpu") == trained(c.run, "late"));
  }
}

TEST(LateEngine, WorkDoneAtTheLastMomentGivesTheHostsBits) {
  expect_same({.pace = Pace::last_moment});
}

TEST(LateEngine, WorkDoneAfterRandomDelaysGivesTheHostsBits) {
  for (const uint64_t seed : {1, 2}) expect_same({.pace = Pace::random, .seed = seed});
}

/// Whichever piece of work fails, the run ends with its message, and the batches are given back.
TEST(LateEngine, AFailureAtAnyPieceOfWorkEndsTheRun) {
  const QuadraticRun run{
      .sync = "sma-paper", .options = {.learners = 3, .momentum = 0.9}, .device = "late-ref"};
  for (const Pace pace : {Pace::last_moment, Pace::random}) {
    int64_t before = 0, all = 0;
    {
      const WithLateOptions late({.pace = pace});
      QuadraticData data;
      QuadraticEngine engine(run);
      before = late_work_done();
      engine.run(data);
      all = late_work_done();
    }
    for (int64_t n = before; n < all; n += 7) {
      const WithLateOptions late({.pace = pace, .failing_work = n});
      QuadraticData data;
      const std::string error = error_of([&] {
        QuadraticEngine engine(run);
        engine.run(data);
      });
      EXPECT_EQ(error, "the late device failed") << n;
      EXPECT_EQ(data.released, data.acquired) << n;
    }
  }
}

/// Each op has been waited for when its time is taken, and so has an update after them all.
TEST(LateEngine, ATimedStepIsOverWhenItReturns) {
  for (const double clip_norm : {0.0, 0.1}) {
    const WithLateOptions late({});
    QuadraticData data;
    QuadraticEngine engine({.sync = "none",
                            .options = {.momentum = 0.9},
                            .clip_norm = clip_norm,
                            .device = "late-ref"});
    Step step;
    step.inputs = data.acquire(0).fields;
    std::vector<double> seconds(100);
    const int64_t before = late_work_done();
    engine->time_step(step, 0.1, seconds);
    const auto ops =
        std::count_if(seconds.begin(), seconds.end() - 1, [](double s) { return s > 0; });
    // Two fields and the step block; after the ops the norm, the scale and the update.
    EXPECT_EQ(late_work_done() - before, 3 + ops + (clip_norm > 0 ? 3 : 0)) << clip_norm;
  }
}

TEST(LateEngine, SaysThatThereIsNoMemory) {
  const WithLateOptions late({.memory = 100 << 10});
  const QuadraticRun run{.sync = "sma-paper", .options = {.learners = 8}, .device = "late-ref"};
  EXPECT_EQ(error_of([&] { QuadraticEngine engine(run); }).substr(0, 23),
            "the late device has no ");
}

}  // namespace
}  // namespace crossbow::testing
