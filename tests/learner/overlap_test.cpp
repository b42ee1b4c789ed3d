// Where exchanges overlap with steps, a rank's sums do so too.
#include <gtest/gtest.h>

#include "learner/quadratic.h"
#include "support/steady_world.h"

namespace crossbow::testing {
namespace {

/// Batches that the only learner has asked for, and those whose steps are over.
struct Steps {
  int64_t begun = 0, over = 0;
};

class Counted final : public QuadraticData {
 public:
  explicit Counted(Steps& steps) : steps_(steps) {}
  const data::Batch& acquire(int64_t index) override {
    ++steps_.begun;
    return QuadraticData::acquire(index);
  }
  void release(const data::Batch&) override { ++steps_.over; }

 private:
  Steps& steps_;
};

/// Says where the steps are when each sum begins. The sum beside step i is done once step i + late
/// has begun. It is the only rank's, so all happens in one thread.
class OnlyRank final : public SteadyWorld {
 public:
  OnlyRank(const Steps& steps, int64_t late) : steps_(steps), late_(late) {}

  int rank() const override { return 0; }
  int size() const override { return 1; }
  void broadcast(std::span<std::byte>, int) override {}
  std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte> bytes) override {
    return {{bytes.begin(), bytes.end()}};
  }
  std::unique_ptr<Comm> make_comm(int64_t, DType, std::function<void()>) override {
    return std::make_unique<Sums>(*this);
  }
  std::unique_ptr<Mail> make_mail(size_t) override { return nullptr; }

  std::vector<Steps> begins;

 private:
  class Sums final : public Comm {
   public:
    explicit Sums(OnlyRank& world) : world_(world) {}
    int rank() const override { return 0; }
    int size() const override { return 1; }
    Sum start_sum(Queue&, void*, int64_t) override {
      world_.begins.push_back(world_.steps_);
      return static_cast<Sum>(world_.begins.size()) - 1;
    }
    State state(Sum sum) const override {
      const int64_t needed = std::min(sum + world_.late_ + 1, kBatches);  // there are no more
      return world_.late_ == 0 || world_.steps_.begun >= needed ? State::done : State::running;
    }
    std::string failure() const override { return {}; }
    bool advance() override { return false; }
    bool can_advance() const override { return false; }

   private:
    OnlyRank& world_;
  };

  const Steps& steps_;
  const int64_t late_;
};

/// Of an epoch with an exchange for each step.
std::vector<Steps> begins_of_sums(std::string_view sync, int64_t late) {
  Steps steps;
  Counted data(steps);
  OnlyRank world(steps, late);
  QuadraticEngine engine({.sync = std::string(sync),
                          .options = {.learners = 1, .period = 1, .momentum = 0.9},
                          .world = &world});
  engine.run(data);
  EXPECT_EQ(world.begins.size(), static_cast<size_t>(kBatches));
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

TEST(Overlap, WhatDoesNotOverlapIsAddedUpAfterItsStep) {
  const std::vector<Steps> begins = begins_of_sums("sma", 0);
  for (int64_t i = 0; i < std::ssize(begins); ++i) {
    EXPECT_EQ(begins[static_cast<size_t>(i)].over, i + 1);
  }
}

}  // namespace
}  // namespace crossbow::testing
