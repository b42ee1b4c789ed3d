#include "train/rank_shares.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace crossbow {

RankShares::RankShares(int ranks, int learners)
    : learners_(int64_t{ranks} * learners),
      round_(learners_),
      counts_(static_cast<size_t>(ranks), learners) {}

bool RankShares::measure(int64_t batches, std::span<const double> seconds) {
  constexpr double kNew = 0.5;  // of a smoothed speed
  const bool first = speeds_.empty();
  speeds_.resize(counts_.size());
  for (size_t r = 0; r < counts_.size(); ++r) {
    const double share = static_cast<double>(counts_[r]) / static_cast<double>(round_);
    const double speed = static_cast<double>(batches) * share / std::max(seconds[r], 1e-6);
    speeds_[r] = first ? speed : (1 - kNew) * speeds_[r] + kNew * speed;
  }
  constexpr double kGoodEnough = 0.92, kGood = 0.97;
  constexpr int64_t kMostRounds = 12;
  const double now = efficiency(counts_);
  if (now >= kGoodEnough) return false;
  double best = now;
  for (int64_t rounds = 1; rounds <= kMostRounds && best < kGood; ++rounds) {
    Counts counts = counts_for(rounds * learners_);
    const double efficiency = this->efficiency(counts);
    if (efficiency <= best) continue;
    best = efficiency;
    round_ = rounds * learners_;
    counts_ = std::move(counts);
  }
  return best > now;
}

/// Each rank has one at least; then who would be done first with one more gets the next.
RankShares::Counts RankShares::counts_for(int64_t round) const {
  Counts counts(counts_.size(), 1);
  for (int64_t left = round - std::ssize(counts); left > 0; --left) {
    size_t next = 0;
    const auto done = [&](size_t r) { return static_cast<double>(counts[r] + 1) / speeds_[r]; };
    for (size_t r = 1; r < counts.size(); ++r) {
      if (done(r) < done(next)) next = r;
    }
    ++counts[next];
  }
  return counts;
}

double RankShares::efficiency(const Counts& counts) const {
  const auto all = static_cast<double>(std::reduce(counts.begin(), counts.end()));
  double longest = 0;
  for (size_t r = 0; r < counts.size(); ++r) {
    longest = std::max(longest, static_cast<double>(counts[r]) / speeds_[r]);
  }
  return all / std::reduce(speeds_.begin(), speeds_.end()) / longest;
}

data::BatchShare RankShares::of(int rank, int64_t begin) const {
  const auto at = counts_.begin() + rank;
  return {std::reduce(counts_.begin(), at), *at, round_, begin};
}

}  // namespace crossbow
