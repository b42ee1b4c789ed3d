#include "plan/memory_plan.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/rng.h"

namespace crossbow {
namespace {

std::vector<Lifetime> random_lifetimes(uint64_t seed, uint32_t count) {
  Rng rng(seed, Purpose::synthetic);
  std::vector<Lifetime> lifetimes;
  for (uint32_t i = 0; i < count; ++i) {
    const int first = static_cast<int>(rng.below(count));
    lifetimes.push_back({1 + rng.below(5000), first, first + static_cast<int>(rng.below(10))});
  }
  return lifetimes;
}

/// Bytes alive at the busiest step, each rounded up to 64: no plan can do with less.
size_t lower_bound(const std::vector<Lifetime>& lifetimes) {
  size_t most = 0;
  for (const Lifetime& at : lifetimes) {
    size_t alive = 0;
    for (const Lifetime& l : lifetimes) {
      if (l.first <= at.first && at.first <= l.last) alive += (l.bytes + 63) / 64 * 64;
    }
    most = std::max(most, alive);
  }
  return most;
}

TEST(MemoryPlan, KeepsApartWhatIsAliveAtOnce) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const std::vector<Lifetime> lifetimes = random_lifetimes(seed, 60);
    const MemoryPlan plan = plan_memory(lifetimes, true);
    for (size_t i = 0; i < lifetimes.size(); ++i) {
      EXPECT_EQ(plan.offsets[i] % 64, 0u);
      EXPECT_LE(plan.offsets[i] + lifetimes[i].bytes, plan.bytes);
      for (size_t j = 0; j < i; ++j) {
        const bool at_once =
            lifetimes[i].first <= lifetimes[j].last && lifetimes[j].first <= lifetimes[i].last;
        const bool apart = plan.offsets[i] + lifetimes[i].bytes <= plan.offsets[j] ||
                           plan.offsets[j] + lifetimes[j].bytes <= plan.offsets[i];
        EXPECT_TRUE(apart || !at_once) << "seed " << seed << ": " << i << " and " << j;
      }
    }
  }
}

TEST(MemoryPlan, ReuseComesCloseToTheLeastPossible) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const std::vector<Lifetime> lifetimes = random_lifetimes(seed, 60);
    const size_t bytes = plan_memory(lifetimes, true).bytes, least = lower_bound(lifetimes);
    EXPECT_GE(bytes, least);
    EXPECT_LE(static_cast<double>(bytes), 1.25 * static_cast<double>(least)) << "seed " << seed;
  }
}

TEST(MemoryPlan, WithoutReuseEverythingHasItsOwnMemory) {
  const std::vector<Lifetime> lifetimes = {{64, 0, 0}, {100, 1, 1}, {1, 2, 3}};
  EXPECT_EQ(plan_memory(lifetimes, false).bytes, 64u + 128 + 64);
  EXPECT_EQ(plan_memory(lifetimes, true).bytes, 128u);
}

TEST(MemoryPlan, OfNothingIsEmpty) {
  EXPECT_EQ(plan_memory({}, true).bytes, 0u);
}

}  // namespace
}  // namespace crossbow
