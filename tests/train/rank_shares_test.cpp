#include "train/rank_shares.h"

#include <gtest/gtest.h>

namespace crossbow {
namespace {

using Times = std::vector<double>;

constexpr int64_t kMost = 32;  // batches of a round

/// What each rank takes of a round.
std::vector<int64_t> counts(const RankShares& shares, int ranks) {
  std::vector<int64_t> counts;
  for (int r = 0; r < ranks; ++r) counts.push_back(shares.of(r).count_in(0, shares.round()));
  return counts;
}

/// A segment of ranks that take so many centiseconds for a batch each.
bool train(RankShares& shares, int64_t batches, const Times& of_a_batch) {
  Times seconds;
  for (size_t r = 0; r < of_a_batch.size(); ++r) {
    const int64_t n = shares.of(static_cast<int>(r)).count_in(0, batches);
    seconds.push_back(0.01 * (0.001 + static_cast<double>(n) * of_a_batch[r]));
  }
  return shares.measure(0, batches, seconds, kMost);
}

TEST(RankShares, AreEqualAtFirst) {
  const RankShares shares(3, 2);
  EXPECT_EQ(shares.round(), 6);
  EXPECT_EQ(counts(shares, 3), (std::vector<int64_t>{2, 2, 2}));
}

TEST(RankShares, EveryBatchIsOfOneRank) {
  RankShares shares(3, 1);
  for (int i = 0; i < 3; ++i) train(shares, 60, {1, 2.3, 0.7});
  EXPECT_GT(shares.round(), 3);
  shares.begin_at(100);
  std::vector<int> owners(1000);
  for (int r = 0; r < 3; ++r) {
    const data::BatchShare share = shares.of(r);
    int64_t n = 0;
    for (int64_t b = share.next_from(100); b < 1000; b = share.next_from(b + 1), ++n) {
      ++owners[static_cast<size_t>(b)];
    }
    EXPECT_EQ(share.count_in(100, 900), n);
    EXPECT_EQ(share.count_in(100, 77) + share.count_in(177, 823), n);
  }
  for (size_t b = 100; b < 1000; ++b) EXPECT_EQ(owners[b], 1) << b;
}

TEST(RankShares, FollowTheSpeeds) {
  RankShares shares(2, 1);
  EXPECT_FALSE(train(shares, 40, {1, 4})) << "the first segment is not typical";
  EXPECT_TRUE(train(shares, 40, {1, 4}));
  EXPECT_EQ(counts(shares, 2), (std::vector<int64_t>{4, 1}));
  EXPECT_FALSE(train(shares, 40, {1, 4}));
  for (int i = 0; i < 8; ++i) train(shares, 40, {1, 1});
  const std::vector<int64_t> n = counts(shares, 2);
  EXPECT_NEAR(static_cast<double>(n[0]) / static_cast<double>(n[1]), 1, 0.1);
}

TEST(RankShares, ARoundHasAboutHalfASecond) {
  RankShares shares(4, 1);
  const Times slow = {5, 20, 5, 5};
  train(shares, 4, slow);
  EXPECT_TRUE(train(shares, 4, slow));
  EXPECT_EQ(counts(shares, 4), (std::vector<int64_t>{4, 1, 4, 4}));
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(train(shares, 48, slow));

  RankShares slower(4, 1);
  for (int i = 0; i < 5; ++i) train(slower, 24, {15, 60, 15, 15});
  EXPECT_EQ(counts(slower, 4), (std::vector<int64_t>{3, 1, 3, 3}));
}

/// However few batches fit into half a second.
TEST(RankShares, ARoundOfLongStepsLosesLittle) {
  RankShares shares(8, 1);
  const Times slow = {10, 40, 10, 10, 10, 10, 10, 10};
  for (int i = 0; i < 3; ++i) train(shares, 32, slow);
  EXPECT_EQ(counts(shares, 8), (std::vector<int64_t>{4, 1, 4, 4, 4, 4, 4, 4}));
}

TEST(RankShares, FirstStepsDoNotCount) {
  RankShares shares(2, 1);
  for (int i = 0; i < 4; ++i) EXPECT_FALSE(train(shares, 2, {0.1, 1}));
  EXPECT_TRUE(train(shares, 2, {0.1, 1}));
}

/// Of a segment that is shorter than a round some ranks have nothing.
TEST(RankShares, AreNotLedAstrayByAnEpochsEnd) {
  RankShares shares(4, 1);
  for (int epoch = 0; epoch < 5; ++epoch) {
    for (int i = 0; i < 4; ++i) train(shares, 40, {1, 1, 1, 4});
    train(shares, 5, {1, 1, 1, 4});
  }
  const std::vector<int64_t> n = counts(shares, 4);
  for (size_t r = 0; r < 3; ++r) EXPECT_NEAR(static_cast<double>(n[r]), 4.0 * n[3], n[3]) << r;
}

TEST(RankShares, AFewPercentAreNotWorthAChange) {
  RankShares shares(2, 1);
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(train(shares, 40, {1, 1.05}));
  EXPECT_EQ(shares.round(), 2);
}

/// Whatever part of more than a twentieth is lost.
TEST(RankShares, MoreThanAFewPercentAre) {
  for (const double slow : {1.12, 1.2, 1.5, 2.0, 3.0, 5.0}) {
    RankShares shares(2, 1);
    for (int i = 0; i < 4; ++i) train(shares, 200, {0.1, 0.1 * slow});
    EXPECT_GT(shares.counts()[0], shares.counts()[1]) << slow;
  }
}

TEST(RankShares, EachRankHasSomeOfARoundThatIsNotTooLong) {
  RankShares shares(4, 1);
  for (int i = 0; i < 5; ++i) train(shares, 40, {1, 1, 1, 1000});
  EXPECT_LE(shares.round(), kMost);
  for (const int64_t n : counts(shares, 4)) EXPECT_GE(n, 1);
}

}  // namespace
}  // namespace crossbow
