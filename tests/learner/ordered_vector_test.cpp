#include "learner/ordered_vector.h"

#include <gtest/gtest.h>

#include "support/late_device.h"

namespace crossbow {
namespace {

constexpr size_t kChunk = 256;  // bytes

class OrderedVectors : public ::testing::Test {
 protected:
  float* chunk(size_t i) const { return reinterpret_cast<float*>(vector_.data() + i * kChunk); }
  void wait(size_t chunk, int64_t place, Queue& queue) {
    vector_.wait(chunk, place, queue, given_up_);
  }

  const testing::WithLateOptions late_{{.pace = testing::LateOptions::Pace::last_moment}};
  Device& device_ = find_device("late");
  const std::unique_ptr<Queue> first_ = device_.make_queue(), second_ = device_.make_queue();
  OrderedVector vector_{device_, 2 * kChunk, 2};
  std::atomic<bool> given_up_{false};
};

/// The second operation follows chunk by chunk, and passes one before it waits for the next.
TEST_F(OrderedVectors, EachChunkIsWaitedForByItself) {
  const int64_t a = vector_.enter(), b = vector_.enter();
  const Buffer seen = device_.allocate_pinned(sizeof(float));
  constexpr float kMade = 3;
  wait(0, a, *first_);
  vector_.pass(0, a, *first_);
  wait(0, b, *second_);
  wait(1, a, *first_);
  first_->write(chunk(1), &kMade, sizeof kMade);
  vector_.pass(1, a, *first_);
  vector_.pass(0, b, *second_);
  wait(1, b, *second_);
  second_->fetch(seen.data(), chunk(1), sizeof kMade);
  second_->finish();
  EXPECT_EQ(*seen.as<float>(), kMade);
}

TEST_F(OrderedVectors, NobodyWaitsForWhatIsGivenUp) {
  vector_.enter();
  const int64_t second = vector_.enter();
  given_up_ = true;
  EXPECT_THROW(wait(0, second, *second_), Error);
}

}  // namespace
}  // namespace crossbow
