// Where exchanges overlap with steps, a rank's sums do so too.
#include <gtest/gtest.h>

#include "learner/quadratic.h"
#include "support/one_rank.h"

namespace crossbow::testing {
namespace {

/// Where the steps are: batches acquired and released.
struct Steps {
  explicit Steps(const QuadraticData& data) : begun(data.acquired), over(data.released) {}
  int64_t begun, over;
};

/// Says where the steps are when each sum begins. The sum beside step i is done once step i + late
/// has begun.
class ObservedRank final : public OneRank {
 public:
  ObservedRank(const QuadraticData& data, int64_t late) : data_(data), late_(late) {}

  std::unique_ptr<Comm> make_comm(std::span<const int64_t>, DType, std::function<void()>) override {
    return std::make_unique<Sums>(*this);
  }

  std::vector<Steps> begins;

 private:
  class Sums final : public OwnSums {
   public:
    explicit Sums(ObservedRank& world) : world_(world) {}
    Sum start_sum(Queue&, void*, int64_t) override {
      world_.begins.emplace_back(world_.data_);
      return std::ssize(world_.begins) - 1;
    }
    State state(Sum sum) const override {
      const int64_t needed = std::min(sum + world_.late_ + 1, kBatches);  // there are no more
      return world_.late_ == 0 || world_.data_.acquired >= needed ? State::done : State::running;
    }

   private:
    ObservedRank& world_;
  };

  const QuadraticData& data_;
  const int64_t late_;
};

/// Of an epoch, with an exchange for each step. All happens in one thread.
std::vector<Steps> begins_of_sums(std::string_view sync, int64_t late, int learners = 1) {
  QuadraticData data;
  ObservedRank world(data, late);
  QuadraticEngine engine({.sync = std::string(sync),
                          .options = {.learners = learners, .period = 1, .momentum = 0.9},
                          .workers = 1,
                          .world = &world});
  engine.run(data);
  EXPECT_EQ(std::ssize(world.begins), (kBatches + learners - 1) / learners);
  return world.begins;
}

TEST(Overlap, ASumBeginsBeforeTheStepThatItRunsBeside) {
  const std::vector<Steps> begins = begins_of_sums("sma-paper", 0);
  for (int64_t i = 0; i < std::ssize(begins); ++i) {
    EXPECT_EQ(begins[static_cast<size_t>(i)].begun, i);
  }
}

/// One that ends within the next step leaves its successor a whole step, too: it begins within that
/// step, before weights are changed, and not only when the learner waits for it.
TEST(Overlap, ASumBeginsAsSoonAsALateOneBeforeItIsDone) {
  const std::vector<Steps> begins = begins_of_sums("sma-paper", 1);
  for (int64_t i = 0; i < std::ssize(begins); ++i) {
    EXPECT_EQ(begins[static_cast<size_t>(i)].over, i);
  }
}

/// Two learners share a thread, and every second step has an exchange: the first of them to begin
/// that step begins the sum.
TEST(Overlap, ASumOfSeveralLearnersBeginsBeforeTheirSteps) {
  QuadraticData data;
  ObservedRank world(data, 0);
  QuadraticEngine engine({.sync = "sma-paper",
                          .options = {.learners = 2, .period = 2, .momentum = 0.9},
                          .workers = 1,
                          .world = &world});
  engine.run(data);
  ASSERT_EQ(world.begins.size(), 3U);
  for (int64_t sum = 0; sum < 3; ++sum) {
    EXPECT_EQ(world.begins[static_cast<size_t>(sum)].begun, 2 * (2 * sum + 1));
  }
}

/// So it does where the steps' updates wait for it.
TEST(Overlap, ASumBeginsBeforeThePassesThatItRunsBeside) {
  const std::vector<Steps> begins = begins_of_sums("sma-delayed", 0, 2);
  for (int64_t i = 0; i < std::ssize(begins); ++i) {
    EXPECT_EQ(begins[static_cast<size_t>(i)].begun, 2 * i);
  }
}

/// Where a queue runs ahead, a sum begins when a learner waits for it.
TEST(Overlap, ASumOfAQueueThatRunsAheadDoesNotWaitForIt) {
  QuadraticData data;
  ObservedRank world(data, 0);
  QuadraticEngine engine({.sync = "sma-paper",
                          .options = {.learners = 1, .period = 1, .momentum = 0.9},
                          .device = "late-ref",
                          .world = &world});
  engine.run(data);
  for (int64_t i = 0; i + 1 < kBatches; ++i) {
    EXPECT_EQ(world.begins[static_cast<size_t>(i)].begun, i + 2);
  }
}

TEST(Overlap, WhatDoesNotOverlapIsAddedUpAfterItsStep) {
  const std::vector<Steps> begins = begins_of_sums("sma", 0);
  for (int64_t i = 0; i < std::ssize(begins); ++i) {
    EXPECT_EQ(begins[static_cast<size_t>(i)].over, i + 1);
  }
}

}  // namespace
}  // namespace crossbow::testing
