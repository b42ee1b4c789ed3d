#include "comm/local.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <span>
#include <thread>
#include <vector>

#include "device/buffer.h"

namespace crossbow {
namespace {

constexpr int64_t kElements = 10000;  // more than two pieces
constexpr std::array<int64_t, 1> kWhole{kElements};
constexpr std::array<int64_t, 3> kParts{kElements, 100, 4097};

/// Rank r's value at i in an operation.
float value(int r, int64_t operation, int64_t i) {
  return static_cast<float>((r + 1) * (operation + 1)) + 0.1f * static_cast<float>(i % 7);
}

float sum_of(int ranks, int64_t operation, int64_t i) {
  float sum = 0;
  for (int r = 0; r < ranks; ++r)
    sum = r == 0 ? value(0, operation, i) : sum + value(r, operation, i);
  return sum;
}

std::vector<Device*> cpus(int count) {
  std::vector<Device*> devices;
  for (int r = 0; r < count; ++r) devices.push_back(&find_device("cpu", r));
  return devices;
}

/// Every rank on a thread of its own, some operations in a row. Each begins the sums of all parts
/// at once.
void sum_up(int ranks, std::span<const int64_t> parts, int64_t rounds) {
  std::atomic<int64_t> notified{0};
  LocalGroup group(cpus(ranks), parts, DType::f32, [&] { ++notified; });
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r] {
      Comm& comm = group.rank(r);
      const auto queue = find_device("cpu", r).make_queue();
      std::vector<Buffer> values;
      for (const int64_t n : parts) values.emplace_back(static_cast<size_t>(n) * sizeof(float));
      for (int64_t round = 0; round < rounds; ++round) {
        Comm::Sum first = round * std::ssize(parts), sum = first;
        for (size_t p = 0; p < parts.size(); ++p, ++sum) {
          for (int64_t i = 0; i < parts[p]; ++i) values[p].as<float>()[i] = value(r, sum, i);
          wrong += comm.start_sum(*queue, values[p].data(), parts[p]) != sum;
        }
        for (size_t p = 0; p < parts.size(); ++p) {
          sum = first + static_cast<int64_t>(p);
          while (comm.state(sum) != Comm::State::done) {
            if (!comm.advance()) std::this_thread::yield();
          }
          for (int64_t i = 0; i < parts[p]; ++i) {
            wrong += values[p].as<float>()[i] != sum_of(ranks, sum, i);
          }
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0) << ranks;
  EXPECT_EQ(notified, 2 * rounds * std::ssize(parts)) << ranks;
}

TEST(LocalComm, EveryRankGetsTheSumsOfAllParts) {
  for (const int ranks : {1, 2, 3}) sum_up(ranks, kParts, 300);
}

TEST(LocalComm, EveryRankGetsTheSameSum) {
  for (const int ranks : {1, 2, 3, 5}) sum_up(ranks, kWhole, 20);
}

class LocalComms : public ::testing::Test {
 protected:
  Comm::Sum start(int rank) {
    return group_.rank(rank).start_sum(*queue_, values_[rank].data(), kElements);
  }
  void finish() {
    while (group_.rank(0).advance()) {
    }
  }

  std::atomic<int> notified_{0};
  LocalGroup group_{cpus(2), kWhole, DType::f32, [this] { ++notified_; }};
  const std::unique_ptr<Queue> queue_ = find_device("cpu").make_queue();
  const std::array<Buffer, 2> values_{Buffer(kElements * sizeof(float)),
                                      Buffer(kElements * sizeof(float))};
};

TEST_F(LocalComms, KnowTheirPlaces) {
  for (const int r : {0, 1}) {
    EXPECT_EQ(group_.rank(r).rank(), r);
    EXPECT_EQ(group_.rank(r).size(), 2);
  }
}

TEST_F(LocalComms, DoNothingBeforeBothHaveStarted) {
  EXPECT_FALSE(group_.rank(0).can_advance());
  EXPECT_EQ(start(0), 0);
  EXPECT_FALSE(group_.rank(0).can_advance());
  EXPECT_FALSE(group_.rank(1).advance());
  EXPECT_EQ(group_.rank(0).state(0), Comm::State::running);
  EXPECT_EQ(start(1), 0);
  EXPECT_TRUE(group_.rank(0).can_advance());
  finish();
  EXPECT_EQ(group_.rank(1).state(0), Comm::State::done);
  EXPECT_EQ(group_.rank(1).state(1), Comm::State::running);
}

TEST_F(LocalComms, HearThatTheOtherIsLost) {
  start(0);
  start(1);
  finish();
  start(0);
  const int before = notified_;
  group_.lose(1, "its cable was cut");
  group_.lose(1, "and again");
  EXPECT_GT(notified_, before);
  EXPECT_EQ(group_.rank(0).state(0), Comm::State::done);
  EXPECT_EQ(group_.rank(0).state(1), Comm::State::failed);
  EXPECT_EQ(group_.rank(0).state(2), Comm::State::failed);
  EXPECT_EQ(group_.rank(0).failure(), "rank 1 is lost: its cable was cut");
}

}  // namespace
}  // namespace crossbow
