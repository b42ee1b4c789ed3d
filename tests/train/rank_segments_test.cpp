#include "train/rank_segments.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "comm/thread_world.h"
#include "learner/rank_events.h"

namespace crossbow {
namespace {

constexpr int kRanks = 4;
constexpr int64_t kEpoch = 2000;  // batches

/// Keeps what it is told to serve.
class Served : public data::TrainingBatches {
 public:
  const data::Batch& acquire(int64_t) override { throw Error("there are none"); }
  void release(const data::Batch&) override {}
  int64_t samples() const override { return 16 * kEpoch; }
  int64_t batches() const override { return kEpoch; }
  void start(int64_t, int64_t) override {}
  void serve(int64_t, const data::BatchShare& asked) override { share = asked; }
  int64_t buffer_bytes() const override { return 0; }
  double take_waited_seconds() override { return 0; }

  data::BatchShare share;
};

TeamConfig team_of(bool wait) {
  TeamConfig team;
  team.ranks = kRanks;
  if (!wait) team.async = make_async("gossip-push", {});
  return team;
}

/// What is decided on rank 0: of an epoch's segments their lengths, and of which shares.
struct Decisions {
  std::vector<int64_t> lengths;
  std::vector<int64_t> last_shares;
  std::string turns;
};

/// Ranks that take so many seconds for a batch each; whether they wait for each other.
Decisions decisions(const std::vector<double>& of_a_batch, bool wait) {
  Decisions decisions;
  ThreadWorlds(kRanks).run([&](World& world) {
    RankSegments segments(team_of(wait), {}, /*resumed=*/false, /*keeps=*/true, kEpoch);
    const auto r = static_cast<size_t>(world.rank());
    Served batches;
    segments.serve(0, batches);
    int64_t served = 0;  // from that batch on
    for (int64_t first = 0, n = 0; first < kEpoch; first += n) {
      n = segments.length(kEpoch - first);
      ASSERT_GE(n, 1);
      ASSERT_LE(n, kEpoch - first);
      if (segments.has_new_shares()) segments.serve(served = first, batches);
      ASSERT_FALSE(segments.has_new_shares());
      const auto share = segments.share();
      ASSERT_EQ(share.has_value(), !wait);
      if (share) {
        ASSERT_EQ(batches.share.begin, served);
        ASSERT_EQ(batches.share.all, share->all);
        ASSERT_EQ(batches.share.count, share->count) << "what is served is what is trained on";
      }
      const int64_t own = share ? share->count_in(first, n) : n / kRanks;
      const double seconds = of_a_batch[r] * static_cast<double>(own);
      const std::vector<double> all = of_all_ranks(seconds);
      std::vector<float> losses(static_cast<size_t>(n), world.rank() == 1 ? 2.0f : 0.0f);
      segments.end(first, losses, *std::ranges::max_element(all), seconds);
      ASSERT_EQ(losses.back(), 2) << "one rank's, for all";
      if (world.rank() == 0) decisions.lengths.push_back(n);
    }
    const auto shares = of_all_ranks(segments.share().value_or(data::BatchShare{}).count);
    const auto turns = segments.take_turns({RankEvent{.node = world.rank()}.code()});
    ASSERT_TRUE(turns.has_value());
    ASSERT_TRUE(world.rank() == 0 || turns->empty());
    if (world.rank() > 0) return;
    decisions.last_shares = shares;
    decisions.turns = *turns;
  });
  return decisions;
}

TEST(RankSegments, GrowToHalfASecond) {
  const Decisions waiting = decisions({0.02, 0.02, 0.02, 0.02}, /*wait=*/true);
  EXPECT_EQ(std::vector(waiting.lengths.begin(), waiting.lengths.begin() + 6),
            (std::vector<int64_t>{4, 8, 16, 32, 64, 100}));
  EXPECT_TRUE(waiting.turns.empty());
}

/// Before shares are known the slow one keeps the others waiting.
TEST(RankSegments, FindOutSpeedsQuickly) {
  const Decisions found = decisions({0.05, 0.2, 0.05, 0.05}, /*wait=*/false);
  EXPECT_EQ(std::vector(found.lengths.begin(), found.lengths.begin() + 3),
            (std::vector<int64_t>{4, 4, 13}));
  EXPECT_EQ(found.last_shares, (std::vector<int64_t>{4, 1, 4, 4}));
  EXPECT_EQ(*std::ranges::max_element(found.lengths), 26);
}

TEST(RankSegments, WriteDownWhatTheyWere) {
  const Decisions found = decisions({0.05, 0.2, 0.05, 0.05}, /*wait=*/false);
  const RankTurns turns = decode_turns(found.turns, kRanks, 1);
  std::vector<int64_t> lengths;
  for (const RankTurns::Segment& segment : turns.segments) lengths.push_back(segment.batches);
  EXPECT_EQ(lengths, found.lengths);
  EXPECT_TRUE(turns.segments.front().shares.empty());
  EXPECT_EQ(turns.segments[1].shares, found.last_shares);
  EXPECT_EQ(turns.events.size(), size_t{kRanks});
}

}  // namespace
}  // namespace crossbow
