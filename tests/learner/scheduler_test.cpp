#include "learner/scheduler.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "core/rng.h"
#include "learner/quadratic.h"

namespace crossbow::testing {
namespace {

/// Ends the process where the test hangs.
class Watchdog {
 public:
  explicit Watchdog(std::chrono::seconds patience)
      : thread_([this, patience] {
          std::unique_lock lock(mutex_);
          if (done_.wait_for(lock, patience, [this] { return over_; })) return;
          std::fprintf(stderr, "somebody waits for ever\n");
          std::_Exit(1);
        }) {}
  ~Watchdog() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    done_.notify_one();
    thread_.join();
  }

 private:
  std::mutex mutex_;
  std::condition_variable done_;
  bool over_ = false;
  std::thread thread_;
};

constexpr std::chrono::seconds kPatience{120};

TEST(Scheduler, EveryLearnerHasFewWorkersAndEveryWorkerLearners) {
  for (const int devices : {1, 2}) {
    for (int workers = 1; workers <= 16; ++workers) {
      for (const int learners : {workers, workers + 1, 2 * workers, 5 * workers + 3, 128}) {
        const Scheduler scheduler(devices, learners, workers);
        std::vector<double> load(static_cast<size_t>(devices * workers));
        for (int j = 0; j < devices * learners; ++j) {
          int allowed = 0;
          for (int w = 0; w < devices * workers; ++w) {
            if (!scheduler.may_run(w, j)) continue;
            EXPECT_EQ(w / workers, j / learners);
            ++allowed;
          }
          EXPECT_GE(allowed, 1);
          EXPECT_LE(allowed, learners == workers ? 1 : 4);
          for (int w = 0; w < devices * workers; ++w) {
            if (scheduler.may_run(w, j)) load[static_cast<size_t>(w)] += 1.0 / allowed;
          }
        }
        const double even = static_cast<double>(learners) / workers;
        for (const double of_worker : load) EXPECT_GE(of_worker, 0.5 * even);
      }
    }
  }
}

/// Of one device.
TEST(Scheduler, KnowsWhichPartsAllLearnersHavePassed) {
  Scheduler scheduler(2, 2, 1);
  scheduler.start(2, [] { return false; });
  const Scheduler::Task a = *scheduler.claim(0);
  scheduler.pass(a, 2);
  EXPECT_FALSE(scheduler.passed(0, 0, 1));
  scheduler.finish(a);
  const Scheduler::Task b = *scheduler.claim(0);
  EXPECT_FALSE(scheduler.passed(0, 0, 1));
  scheduler.pass(b, 1);
  EXPECT_TRUE(scheduler.passed(0, 0, 1));
  EXPECT_FALSE(scheduler.passed(0, 0, 2));
  EXPECT_FALSE(scheduler.passed(1, 0, 1));
  scheduler.finish(b);
  EXPECT_TRUE(scheduler.passed(0, 0, 2));
  scheduler.pass(*scheduler.claim(0), 1);
  EXPECT_TRUE(scheduler.passed(0, 0, 2));
  EXPECT_FALSE(scheduler.passed(0, 1, 1));
}

/// Workers who only claim and finish, in segments so short that most of what they do is to begin
/// and to end.
void claim_and_finish(int learners, int workers, int segments, uint64_t seed) {
  Scheduler scheduler(1, learners, workers);
  for (int s = 0; s < segments; ++s) {
    const int64_t iterations = 1 + s % 3;
    scheduler.start(iterations, [] { return false; });
    std::vector<std::thread> threads;
    for (int w = 0; w < workers; ++w) {
      threads.emplace_back([&, w] {
        Rng rng(seed, Purpose::synthetic, static_cast<uint32_t>(s), static_cast<uint64_t>(w));
        while (const auto task = scheduler.claim(w)) {
          if (rng.below(2) == 0)
            std::this_thread::sleep_for(std::chrono::microseconds(rng.below(50)));
          scheduler.finish(*task);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(scheduler.completed(), iterations);
  }
}

TEST(Scheduler, AWorkerThatFindsNoLearnerFreeIsWokenByTheNextThatIs) {
  const Watchdog watchdog(kPatience);
  for (const auto& [learners, workers] : {std::pair(3, 2), {5, 4}, {9, 8}, {17, 16}}) {
    claim_and_finish(learners, workers, 60, static_cast<uint64_t>(learners));
  }
}

/// What another worker does between a worker's look at a learner and its claim of it: where the
/// worker asks whether to stop. Afterwards the worker claims.
std::optional<Scheduler::Task> claim_after(Scheduler& scheduler,
                                           const std::function<void()>& meanwhile) {
  bool asked = false;
  scheduler.start(2, [&] {
    if (!std::exchange(asked, true)) meanwhile();
    return false;
  });
  return scheduler.claim(0);
}

TEST(Scheduler, AStepThatAnotherHasRunMeanwhileIsNotRunAgain) {
  Scheduler scheduler(1, 3, 2);
  const auto task = claim_after(scheduler, [&] {
    for (int step = 0; step < 3; ++step) scheduler.finish(*scheduler.claim(1));
  });
  ASSERT_TRUE(task);
  EXPECT_EQ(task->iteration, 1);
  EXPECT_EQ(scheduler.completed(), 1);
}

TEST(Scheduler, AStepThatAnotherHasBegunMeanwhileIsLeftToIt) {
  Scheduler scheduler(1, 3, 2);
  std::optional<Scheduler::Task> done;
  const auto task = claim_after(scheduler, [&] {
    done = scheduler.claim(1);
    for (int step = 0; step < 2; ++step) EXPECT_TRUE(scheduler.claim(1));
    scheduler.finish(*done);
  });
  ASSERT_TRUE(task);
  EXPECT_EQ(task->learner, done->learner);  // the others' steps are begun
  EXPECT_EQ(task->iteration, 1);
}

TEST(Scheduler, AStepThatEndsWakesWhoWaitsForIt) {
  const Watchdog watchdog(kPatience);
  Scheduler scheduler(1, 2, 2);
  scheduler.start(1, [] { return false; });
  const auto first = scheduler.claim(0), second = scheduler.claim(1);
  ASSERT_TRUE(first && second);
  std::thread waits(
      [&] { EXPECT_TRUE(scheduler.wait([&] { return scheduler.completed() == 1; })); });
  for (const auto& task : {first, second}) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    scheduler.finish(*task);
  }
  waits.join();
}

TEST(Scheduler, AFailureWakesWhoWaits) {
  const Watchdog watchdog(kPatience);
  Scheduler scheduler(1, 2, 2);
  scheduler.start(3, [] { return false; });
  ASSERT_TRUE(scheduler.claim(0));
  std::thread claims([&] {
    EXPECT_TRUE(scheduler.claim(1));
    EXPECT_FALSE(scheduler.wait([] { return false; }));
    EXPECT_FALSE(scheduler.claim(1));
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  scheduler.fail(std::make_exception_ptr(Error("enough")));
  claims.join();
  EXPECT_THROW(scheduler.check(), Error);
}

/// Whoever waits for an exchange is woken when its turn to compute has come and when it is
/// complete, whoever of the learners and devices comes last.
TEST(Scheduler, ExchangesWakeWhoWaitsForThem) {
  const Watchdog watchdog(kPatience);
  for (const char* sync : {"sma-paper", "sma-delayed", "ssgd", "local-sgd"}) {
    for (const int devices : {1, 2}) {
      QuadraticData data;
      data.longest_delay_us = 300;
      QuadraticRun run{.sync = sync, .options = {.learners = 4, .momentum = 0.9}};
      run.workers = 4 / devices;
      run.devices = devices;
      QuadraticEngine engine(run);
      for (data.seed = 0; data.seed < 30; ++data.seed) EXPECT_EQ(engine.run(data), kBatches);
    }
  }
}

}  // namespace
}  // namespace crossbow::testing
