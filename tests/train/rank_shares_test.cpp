#include "train/rank_shares.h"

#include <gtest/gtest.h>

#include <array>

namespace crossbow {
namespace {

using Seconds = std::vector<double>;

/// What each rank takes of the batches from 0 on.
std::vector<int64_t> counts(const RankShares& shares, int ranks, int64_t batches) {
  std::vector<int64_t> counts;
  for (int r = 0; r < ranks; ++r) {
    const data::BatchShare share = shares.of(r, 0);
    int64_t n = 0;
    for (int64_t b = share.next_from(0); b < batches; b = share.next_from(b + 1)) ++n;
    counts.push_back(n);
  }
  return counts;
}

TEST(RankShares, AreEqualAtFirst) {
  const RankShares shares(3, 2);
  EXPECT_EQ(shares.round(), 6);
  EXPECT_EQ(counts(shares, 3, 60), (std::vector<int64_t>{20, 20, 20}));
}

TEST(RankShares, EveryBatchIsOfOneRank) {
  RankShares shares(3, 1);
  shares.measure(30, Seconds{1, 2.3, 0.7});
  std::vector<int> owners(1000);
  for (int r = 0; r < 3; ++r) {
    const data::BatchShare share = shares.of(r, 100);
    for (int64_t b = share.next_from(100); b < 1000; b = share.next_from(b + 1)) {
      ++owners[static_cast<size_t>(b)];
    }
  }
  for (size_t b = 100; b < 1000; ++b) EXPECT_EQ(owners[b], 1) << b;
}

TEST(RankShares, FollowTheSpeeds) {
  RankShares shares(2, 1);
  // A rank that is four times slower.
  EXPECT_TRUE(shares.measure(40, Seconds{1, 4}));
  EXPECT_EQ(counts(shares, 2, 10 * shares.round())[0],
            4 * counts(shares, 2, 10 * shares.round())[1]);
  // With these both take as long.
  EXPECT_FALSE(shares.measure(40, Seconds{1.6, 1.6}));
  // It recovers.
  EXPECT_TRUE(shares.measure(40, Seconds{1.6, 0.4}));
  for (int i = 0; i < 5; ++i) {
    const std::vector<int64_t> n = counts(shares, 2, shares.round());
    const auto batches = static_cast<double>(shares.round());
    shares.measure(shares.round(), Seconds{static_cast<double>(n[0]) / batches,
                                           static_cast<double>(n[1]) / batches});
  }
  const std::vector<int64_t> n = counts(shares, 2, 10 * shares.round());
  EXPECT_NEAR(static_cast<double>(n[0]) / static_cast<double>(n[1]), 1, 0.2);
}

TEST(RankShares, AFewPercentAreNotWorthAChange) {
  RankShares shares(2, 1);
  EXPECT_FALSE(shares.measure(40, Seconds{1, 1.05}));
  EXPECT_EQ(shares.round(), 2);
}

TEST(RankShares, EachRankHasSome) {
  RankShares shares(4, 1);
  EXPECT_TRUE(shares.measure(40, Seconds{1, 1, 1, 1000}));
  for (const int64_t n : counts(shares, 4, shares.round())) EXPECT_GE(n, 1);
}

}  // namespace
}  // namespace crossbow
