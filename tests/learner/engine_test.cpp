#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>

#include "core/seconds_since.h"
#include "learner/quadratic.h"

namespace crossbow::testing {
namespace {

QuadraticRun sma(int64_t learners, int workers) {
  return {
      .sync = "sma-paper", .options = {.learners = learners, .momentum = 0.9}, .workers = workers};
}

TEST(Engine, AnEpochInPartsIsTheWholeEpoch) {
  for (const char* sync : {"sma-paper", "sma-delayed", "ssgd", "local-sgd"}) {
    QuadraticData data;
    const QuadraticRun run{sync, {.learners = 2, .momentum = 0.9}};
    QuadraticEngine whole(run), parts(run);
    whole.run(data);
    parts->run(parts.segment(data, 0, 2));
    parts->run(parts.segment(data, 2, 6));
    parts->run(parts.segment(data, 8, 3));
    EXPECT_EQ(whole.z(), parts.z()) << sync;
    EXPECT_EQ(whole.weights(1), parts.weights(1)) << sync;
  }
}

TEST(Engine, StartsAfreshWhereverItWas) {
  for (const char* device : {"ref", "late-ref"}) {
    QuadraticData data;
    QuadraticRun run{.sync = "none", .options = {.momentum = 0.9}};
    run.device = device;
    QuadraticEngine once(run), again(run);
    again.run(data);
    Replica first(again->layout());
    write_first_weights(again->layout(), first);
    again->start_from(first);
    once.run(data);
    again.run(data);
    EXPECT_EQ(once.z(), again.z()) << device;
  }
}

/// The state and the snapshot are all there is to a run.
TEST(Engine, GoesOnFromItsState) {
  for (const char* sync :
       {"sma-paper", "sma-delayed", "ssgd", "local-sgd", "slowmo", "polyak-ruppert"}) {
    QuadraticData data;
    QuadraticRun run{sync, {.learners = 4, .momentum = 0.9}};
    run.devices = sync == std::string("sma-paper") || sync == std::string("ssgd") ? 2 : 1;
    QuadraticEngine whole(run), first(run), second(run);
    whole.run(data);
    whole.run(data);
    first.run(data);

    const Replica& model = first->snapshot();
    const EngineState state = first->state();
    second->restore(model, state.place, [&](const std::vector<EngineBuffer>& to) {
      const std::vector<EngineBuffer>& from = state.buffers;
      ASSERT_EQ(from.size(), to.size());
      for (size_t i = 0; i < from.size(); ++i) {
        const bool states = from[i].kind == EngineBuffer::Kind::states;
        if (!states) to[i].device->copy_now(to[i].data, from[i].data, kInputs * sizeof(float));
      }
    });
    second.run(data);
    EXPECT_EQ(whole.z(), second.z()) << sync;
    EXPECT_EQ(whole.weights(2), second.weights(2)) << sync;
  }
}

TEST(Engine, KnowsHowFarItsLearnersAreFromTheCentralModel) {
  for (const char* device : {"ref", "late-ref"}) {
    QuadraticData data;
    QuadraticRun run = sma(3, 2);
    run.device = device;
    QuadraticEngine engine(run);
    engine.run(data);
    const std::vector<float> z = engine.z();
    double squares = 0;
    for (int j = 0; j < 3; ++j) {
      const std::vector<float> w = engine.weights(j);
      for (size_t i = 0; i < z.size(); ++i) squares += std::pow(w[i] - z[i], 2);
    }
    EXPECT_GT(squares, 0) << device;
    EXPECT_NEAR(engine->distance().value(), std::sqrt(squares / 3), 1e-6) << device;
  }
}

TEST(Engine, StopsBetweenIterations) {
  QuadraticData data;
  data.longest_delay_us = 500;
  for (const int workers : {1, 2, 3}) {
    QuadraticEngine engine(sma(3, workers));
    std::atomic<int> asked{0};
    Segment segment = engine.segment(data);
    segment.stop = [&] { return asked++ >= 2; };
    const int64_t done = engine->run(segment);
    EXPECT_EQ(done % 3, 0);
    EXPECT_LE(done, 6);
    segment = engine.segment(data, done, kBatches - done);
    EXPECT_EQ(engine->run(segment), kBatches - done);
    QuadraticEngine whole(sma(3, workers));
    whole.run(data);
    EXPECT_EQ(whole.z(), engine.z());
  }
}

/// One worker is about to begin the next iteration when another decides to stop: either both do it
/// or none.
/// z is then what training began with.
TEST(Engine, ADropBeforeTheFirstExchangeKeepsWhatWasLearned) {
  QuadraticData data;
  QuadraticRun run = sma(2, 2);
  run.options.period = 1000;
  QuadraticEngine engine(run);
  Segment segment = engine.segment(data);
  segment.ends_at_drop = true;
  const std::vector<float> first = engine.weights(0);
  engine->run(segment);
  EXPECT_NE(engine.weights(0), first);
}

/// Learners go on from z then, but how far apart they were is what is told.
TEST(Engine, TellsTheDistanceBeforeADrop) {
  QuadraticData data;
  QuadraticEngine engine(sma(2, 2)), dropped(sma(2, 2));
  engine->run(engine.segment(data));
  Segment segment = dropped.segment(data);
  segment.ends_at_drop = true;
  dropped->run(segment);
  EXPECT_GT(*engine->distance(), 0);
  EXPECT_EQ(dropped->distance(), engine->distance());
  EXPECT_EQ(dropped.weights(0), dropped.z());
}

TEST(Engine, NoLearnerBeginsAnIterationThatAnotherLeavesOut) {
  for (const char* sync : {"sma-paper", "ssgd"}) {
    QuadraticData data;
    const QuadraticRun run{.sync = sync, .options = {.learners = 2}};
    QuadraticEngine engine(run), whole(run);
    std::atomic<int> asked{0};
    Segment segment = engine.segment(data);
    segment.stop = [&] {
      if (asked++ > 0) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      return false;
    };
    const int64_t done = engine->run(segment);
    engine->run(engine.segment(data, done, kBatches - done));
    whole.run(data);
    EXPECT_EQ(whole.z(), engine.z()) << sync;
  }
}

TEST(Engine, ALearnerThatFailsEndsTheRunWithItsMessage) {
  for (const char* sync : {"sma-paper", "ssgd"}) {
    for (const int workers : {1, 2, 4}) {
      QuadraticData data;
      data.bad = 6;
      QuadraticEngine engine({.sync = sync,
                              .options = {.learners = 4},
                              .workers = workers,
                              .devices = workers == 2 ? 2 : 1});
      try {
        engine.run(data);
        ADD_FAILURE() << "nothing was thrown";
      } catch (const Error& e) {
        EXPECT_STREQ(e.what(), "batch 6 is damaged");
      }
    }
  }
}

/// Has nothing for the second of two learners, who waits until the epoch is given up.
class DataForOneLearner : public QuadraticData {
 public:
  const data::Batch& acquire(int64_t index) override {
    if (index % 2 == 0) return QuadraticData::acquire(index);
    cancelled_.wait(false);
    fail("batch {} is not waited for any more", index);
  }
  void cancel() override {
    cancelled_ = true;
    cancelled_.notify_all();
  }

 private:
  std::atomic<bool> cancelled_{false};
};

TEST(Engine, ALearnerThatFailsEndsTheWaitForDataToo) {
  DataForOneLearner data;
  data.bad = 2;
  QuadraticEngine engine({.sync = "local-sgd", .options = {.learners = 2}});
  try {
    engine.run(data);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "batch 2 is damaged");
  }
}

TEST(Engine, ProgressThatThrowsEndsTheWaitForDataToo) {
  DataForOneLearner data;
  QuadraticEngine engine({.sync = "local-sgd", .options = {.learners = 2}});
  Segment segment = engine.segment(data);
  segment.progress = [](int64_t) { fail("enough"); };
  EXPECT_THROW(engine->run(segment), Error);
}

TEST(Engine, ProgressThatThrowsEndsTheRun) {
  QuadraticData data;
  data.longest_delay_us = 100000;
  QuadraticEngine engine(sma(2, 2));
  Segment segment = engine.segment(data);
  segment.progress = [](int64_t) { fail("enough"); };
  EXPECT_THROW(engine->run(segment), Error);
}

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return seconds_since(start);
}

/// How much faster learners are that wait only where they must, than learners that wait for each
/// other after every iteration: with steps of random length, 5 ms ± 90 %.
double gain_of_overlap(int64_t learners) {
  const int64_t steps = 60 * learners;
  QuadraticData data;
  data.shortest_delay_us = 500;
  data.longest_delay_us = 9500;
  QuadraticEngine engine(sma(learners, static_cast<int>(learners)));
  engine.losses.resize(static_cast<size_t>(steps));
  const auto seconds_in_segments_of = [&](int64_t batches) {
    return seconds_of([&] {
      for (int64_t first = 0; first < steps; first += batches) {
        Segment segment = engine.segment(data, first, batches);
        segment.epoch_batches = steps + 1;
        engine->run(segment);
      }
    });
  };
  return seconds_in_segments_of(learners) / seconds_in_segments_of(steps);
}

TEST(Engine, OverlapGainsOverABarrierAfterEachIteration) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the sanitizer's own work would be measured";
#endif
  for (const int64_t learners : {2, 4}) {
    double gain = 0;
    for (int attempt = 0; attempt < 3 && gain < 1.1; ++attempt) {  // other programs may be running
      gain = gain_of_overlap(learners);
    }
    EXPECT_GT(gain, 1.1) << learners;
    RecordProperty("gain" + std::to_string(learners), std::to_string(gain));
  }
}

TEST(Engine, RestartPutsEveryLearnerAtTheCentralModel) {
  QuadraticData data;
  QuadraticEngine engine(sma(3, 2));
  engine.run(data);
  EXPECT_NE(engine.weights(0), engine.z());
  engine->restart();
  for (int j = 0; j < 3; ++j) EXPECT_EQ(engine.weights(j), engine.z());
}

}  // namespace
}  // namespace crossbow::testing
