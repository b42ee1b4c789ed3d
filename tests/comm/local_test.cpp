#include "comm/local.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "device/buffer.h"

namespace crossbow {
namespace {

constexpr int64_t kElements = 10000;  // more than two pieces

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

/// Every rank on a thread of its own, some operations in a row.
void sum_up(int ranks, int64_t operations) {
  std::atomic<int> notified{0};
  LocalGroup group(cpus(ranks), kElements, DType::f32, [&] { ++notified; });
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r] {
      Comm& comm = group.rank(r);
      const auto queue = find_device("cpu", r).make_queue();
      Buffer values(kElements * sizeof(float));
      for (int64_t n = 0; n < operations; ++n) {
        for (int64_t i = 0; i < kElements; ++i) values.as<float>()[i] = value(r, n, i);
        comm.start_sum(*queue, values.data(), kElements);
        while (!comm.complete(n)) {
          if (!comm.advance()) std::this_thread::yield();
        }
        for (int64_t i = 0; i < kElements; ++i)
          wrong += values.as<float>()[i] != sum_of(ranks, n, i);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0) << ranks;
  EXPECT_EQ(notified, 2 * operations) << ranks;
}

TEST(LocalComm, EveryRankGetsTheSameSum) {
  for (const int ranks : {1, 2, 3, 5}) sum_up(ranks, 20);
}

TEST(LocalComm, NothingIsDoneBeforeAllRanksHaveStarted) {
  LocalGroup group(cpus(2), kElements, DType::f32, [] {});
  const auto queue = find_device("cpu").make_queue();
  Buffer a(kElements * sizeof(float)), b(kElements * sizeof(float));
  EXPECT_FALSE(group.rank(0).can_advance());
  group.rank(0).start_sum(*queue, a.data(), kElements);
  EXPECT_FALSE(group.rank(0).can_advance());
  EXPECT_FALSE(group.rank(1).advance());
  EXPECT_FALSE(group.rank(0).complete(0));
  group.rank(1).start_sum(*queue, b.data(), kElements);
  EXPECT_TRUE(group.rank(0).can_advance());
  while (group.rank(0).advance()) {
  }
  EXPECT_TRUE(group.rank(1).complete(0));
  EXPECT_FALSE(group.rank(1).complete(1));
}

}  // namespace
}  // namespace crossbow
