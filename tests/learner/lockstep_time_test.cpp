#include "learner/lockstep_time.h"

#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <vector>

namespace crossbow {
namespace {

using Timing = SyncAlgorithm::Timing;

/// Steps of two learners take 1 and 2; the time after each iteration, and what the first waited.
struct Timeline {
  std::vector<double> ends;
  double waited = 0;
};

Timeline follow(Timing timing, int64_t period, int64_t iterations) {
  Lockstep lockstep(timing);
  lockstep.start(period);
  LockstepTime time(2, /*seed=*/1, {.spread = 0, .slowness = {1, 2}}, /*bytes=*/0);
  Timeline line;
  for (int64_t i = 0; i < iterations; ++i) {
    time.iteration(lockstep, i, 1 << 20);
    line.ends.push_back(time.now());
  }
  line.waited = time.waited(0);
  EXPECT_EQ(time.waited(1), 0);
  return line;
}

TEST(LockstepTime, EachIterationLastsAsLongAsItsLongestStep) {
  const Timeline line = follow(Timing::after_step, 1, 4);
  EXPECT_EQ(line.ends, (std::vector<double>{2, 4, 6, 8}));
  // The last iteration's exchange is still to come, and with it the wait for it.
  EXPECT_EQ(line.waited, 3);
}

TEST(LockstepTime, WaitsAtExchangesOnly) {
  const Timeline line = follow(Timing::after_step, 3, 6);
  EXPECT_EQ(line.ends, (std::vector<double>{2, 4, 6, 8, 10, 12}));
  EXPECT_EQ(line.waited, 3);  // at 3 for 6
}

/// An exchange of iteration i takes the weights before it, and the update of iteration i waits for
/// the exchange before: the first learner may be two iterations ahead, and ends at 1, 2, 3, 4,
/// 6, 8.
TEST(LockstepTime, AnOverlappingExchangeLetsLearnersBeApart) {
  const Timeline line = follow(Timing::beside_step, 1, 6);
  EXPECT_EQ(line.ends, (std::vector<double>{2, 4, 6, 8, 10, 12}));
  EXPECT_EQ(line.waited, 2);
}

/// The update of iteration i waits for all weights before it, so the first learner may be one
/// ahead, and ends at 1, 2 and then with the other one's step before.
TEST(LockstepTime, AnExchangeBesidePassesLetsLearnersBeOneApart) {
  const Timeline line = follow(Timing::beside_passes, 1, 6);
  EXPECT_EQ(line.ends, (std::vector<double>{2, 4, 6, 8, 10, 12}));
  EXPECT_EQ(line.waited, 4);
}

TEST(LockstepTime, SegmentsBeginTogether) {
  Lockstep lockstep(Timing::after_step);
  lockstep.start(8);
  LockstepTime time(2, 1, {.spread = 0, .slowness = {1, 3}}, 0);
  time.iteration(lockstep, 0, 1 << 20);
  EXPECT_EQ(time.waited(0), 0);
  time.end_segment(lockstep, 1, /*whole=*/true);
  EXPECT_EQ(time.waited(0), 2);
  time.iteration(lockstep, 0, 1 << 20);
  EXPECT_EQ(time.now(), 6);
}

/// A sum of two learners takes two latencies and the time of one vector: 2.
LockstepTime networked(int64_t seconds = 1) {
  const NetworkTerms network{.latency = 0.5, .bandwidth = 100};
  return {2, 1, {.spread = 0, .slowness = {1, 2}, .network = network}, 100 * seconds};
}

/// With an exchange each.
Lockstep every_step(Timing timing) {
  Lockstep lockstep(timing);
  lockstep.start(1);
  return lockstep;
}
double after_four(const Lockstep& lockstep, LockstepTime& time) {
  for (int64_t i = 0; i < 4; ++i) time.iteration(lockstep, i, 1 << 20);
  return time.now();
}

TEST(LockstepTime, ALearnerThatWaitsForASumIsLater) {
  Lockstep lockstep(Timing::after_step);
  lockstep.start(2);
  LockstepTime time = networked();
  std::vector<double> ends;
  for (int64_t i = 0; i < 4; ++i) {
    time.iteration(lockstep, i, 1 << 20);
    ends.push_back(time.now());
  }
  EXPECT_EQ(ends, (std::vector<double>{2, 4, 8, 10}));
  EXPECT_EQ(time.waited(1), 2);
  time.end_segment(lockstep, 4, /*whole=*/true);
  EXPECT_EQ(time.now(), 12);
}

/// Sums of 2 beside steps of 2 cost nothing; those of 4 take turns.
TEST(LockstepTime, AnOverlappingSumCostsWhatIsLongerThanAStep) {
  const Lockstep lockstep = every_step(Timing::beside_step);
  LockstepTime time = networked(), slow = networked(3);
  EXPECT_EQ(after_four(lockstep, time), 8);
  // Sums from 0 to 4, 8 and 12; the third one's is for the last update.
  EXPECT_EQ(after_four(lockstep, slow), 12);
  slow.end_segment(lockstep, 4, /*whole=*/true);
  EXPECT_EQ(slow.now(), 16);
}

/// Sums of 2 beside passes of 2 cost nothing, and of those of 4 the half.
TEST(LockstepTime, ASumBesidePassesCostsWhatIsLongerThanAStep) {
  const Lockstep lockstep = every_step(Timing::beside_passes);
  LockstepTime time = networked(), slow = networked(3);
  EXPECT_EQ(after_four(lockstep, time), 8);
  EXPECT_EQ(after_four(lockstep, slow), 16);
}

/// A sum of 6 from 2 on: the step after its own does not wait, and the next one's does.
TEST(LockstepTime, AnOverlappingSumIsWaitedForAtTheNextExchange) {
  Lockstep lockstep(Timing::beside_step);
  lockstep.start(2);
  LockstepTime time = networked(5);
  std::vector<double> ends;
  for (int64_t i = 0; i < 6; ++i) {
    time.iteration(lockstep, i, 1 << 20);
    ends.push_back(time.now());
  }
  EXPECT_EQ(ends, (std::vector<double>{2, 4, 6, 8, 10, 14}));
}

/// Now one learner is late and now the other, and an exchange takes its time.
TEST(LockstepTime, ACutSegmentGoesOnAsIfItWereWhole) {
  for (const Timing timing : {Timing::after_step, Timing::beside_step, Timing::beside_passes}) {
    for (const int64_t period : {1, 2, 3}) {
      const LockstepTime uneven(
          2, 1, {.spread = 0.5, .network = NetworkTerms{.latency = 0.5, .bandwidth = 100}}, 100);
      const auto follow = [&](std::vector<int64_t> parts) {
        Lockstep lockstep(timing);
        lockstep.start(period);
        std::optional<LockstepTime> time(uneven);
        for (size_t s = 0; s < parts.size(); ++s) {
          for (int64_t i = 0; i < parts[s]; ++i) time->iteration(lockstep, i, 1 << 20);
          time->end_segment(lockstep, parts[s], s + 1 == parts.size());
          lockstep.finish(parts[s]);
          const LockstepTime::Ends ends = time->ends();
          const int64_t iterations = time->iterations();
          time.emplace(uneven).restore(ends, iterations, {});
        }
        return time->ends();
      };
      const LockstepTime::Ends whole = follow({9}), cut = follow({1, 2, 1, 3, 2});
      EXPECT_EQ(cut.learners, whole.learners) << static_cast<int>(timing) << period;
      EXPECT_EQ(cut.exchange, whole.exchange) << static_cast<int>(timing) << period;
    }
  }
}

/// Of three learners whose steps take 1, in batches of four iterations.
std::optional<LockstepTime::Loss> loss_at(double fails, Timing timing, int64_t period,
                                          double latency = 0) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  Lockstep lockstep(timing);
  lockstep.start(period);
  const Pace pace{
      .spread = 0, .network = NetworkTerms{.latency = latency}, .fails = {kNever, fails, kNever}};
  return LockstepTime(3, 1, pace, 100).next_loss(lockstep, 12);
}

TEST(LockstepTime, ALossLeavesWhatWasCompleteBefore) {
  const auto loss = loss_at(2.5, Timing::after_step, 1);
  ASSERT_TRUE(loss);
  EXPECT_EQ(loss->iterations, 2);
  EXPECT_EQ(loss->learner, 1);
  EXPECT_EQ(loss->noticed, 2.5);
  EXPECT_EQ(loss_at(3, Timing::after_step, 1)->iterations, 3);  // it has just sent its part
  EXPECT_FALSE(loss_at(4, Timing::after_step, 1));              // the segment is done
  EXPECT_EQ(loss_at(3.9, Timing::after_step, 1)->iterations, 3);
}

/// Steps and a sum of 2·0.25 take 1.5.
TEST(LockstepTime, ALossWithinASumLosesTheStepsBeforeIt) {
  const auto loss = loss_at(2.75, Timing::after_step, 1, /*latency=*/0.25);
  ASSERT_TRUE(loss);
  EXPECT_EQ(loss->iterations, 1);
  EXPECT_EQ(loss->noticed, 3);
}

TEST(LockstepTime, ALossLeavesTheLastExchange) {
  EXPECT_EQ(loss_at(2.5, Timing::after_step, 3)->iterations, 0);
  EXPECT_EQ(loss_at(3.5, Timing::after_step, 3)->iterations, 3);
  // With a longer period the segment's end is the first thing common.
  EXPECT_EQ(loss_at(2.5, Timing::after_step, 9)->iterations, 0);
  EXPECT_FALSE(loss_at(4, Timing::after_step, 9));
}

/// A sum of 0.5 beside each step is done before it, and the step is lost all the same.
TEST(LockstepTime, AStepBesideACompleteSumIsLostToo) {
  const auto loss = loss_at(2.75, Timing::beside_step, 1, 0.25);
  ASSERT_TRUE(loss);
  EXPECT_EQ(loss->iterations, 2);
  EXPECT_EQ(loss->noticed, 3);
}

TEST(LockstepTime, LearnersThatAreLeftKeepTheirNumbers) {
  Lockstep lockstep(Timing::after_step);
  lockstep.start(1);
  LockstepTime time(2, 1, {.spread = 0, .slowness = {1, 2, 3, 4}, .fails = {1, 1, 1, 8}}, 0);
  time.restore({{5, 5}, 6}, 7, std::vector<LostNode>{{2, 1}, {0, 0.5}});
  time.iteration(lockstep, 0, 2);
  EXPECT_EQ(time.ends().learners, (std::vector<double>{8, 10}));  // those of 1 and 3
  time.restore({{5, 5}, 6}, 7, std::vector<LostNode>{{1, 1}, {0, 0.5}});
  const auto loss = time.next_loss(lockstep, 4);
  ASSERT_TRUE(loss);
  EXPECT_EQ(loss->node, 2);
  EXPECT_EQ(loss->learner, 0);
  EXPECT_EQ(loss->noticed, 6);  // not before the last exchange
}

TEST(LockstepTime, TheLastLearnerDoesNotFail) {
  Lockstep lockstep(Timing::after_step);
  lockstep.start(1);
  EXPECT_FALSE(LockstepTime(1, 1, {.fails = {0}}, 0).next_loss(lockstep, 4));
}

}  // namespace
}  // namespace crossbow
