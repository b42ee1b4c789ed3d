#include "train/rank_shares.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace crossbow {

RankShares::RankShares(int ranks, int learners)
    : learners_(int64_t{ranks} * learners),
      round_(learners_),
      counts_(static_cast<size_t>(ranks), learners) {}

bool RankShares::measure(int64_t first, int64_t batches, std::span<const double> seconds,
                         int64_t most) {
  if (batches < round_) return false;  // some have had less than their share
  constexpr double kTypical = 0.05;    // seconds; first steps are not
  const bool is_new = seen_ == 0;
  seen_ += std::ranges::max(seconds);
  if (is_new || seen_ < kTypical) return false;
  constexpr double kNew = 0.5;  // of a smoothed speed
  const bool is_first = speeds_.empty();
  speeds_.resize(counts_.size());
  for (size_t r = 0; r < counts_.size(); ++r) {
    const int64_t done = of(static_cast<int>(r)).count_in(first, batches);
    const double speed = static_cast<double>(done) / std::max(seconds[r], 1e-6);
    speeds_[r] = is_first ? speed : (1 - kNew) * speeds_[r] + kNew * speed;
  }
  constexpr double kFair = 0.95, kGood = 0.97;
  const double now = efficiency(counts_);
  if (now >= kFair) return false;
  double best = now + std::min(1 - kFair, (1 - now) / 2);
  bool changed = false;
  constexpr double kRound = 0.5;  // seconds
  const double in_time = kRound * std::reduce(speeds_.begin(), speeds_.end());
  most = std::max(std::min(most, static_cast<int64_t>(in_time)), learners_);
  constexpr int64_t kTries = 256;
  for (int64_t round = learners_; round <= most; round += 1 + most / kTries) {
    Counts counts = counts_for(round);
    const double efficiency = this->efficiency(counts);
    if (efficiency <= best) continue;
    best = efficiency;
    round_ = round;
    counts_ = std::move(counts);
    changed = true;
    if (best >= kGood) break;
  }
  return changed;
}

void RankShares::adopt(std::vector<int64_t> counts) {
  counts_ = std::move(counts);
  round_ = std::reduce(counts_.begin(), counts_.end());
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

data::BatchShare RankShares::of(int rank) const {
  const auto at = counts_.begin() + rank;
  return {std::reduce(counts_.begin(), at), *at, round_, begin_};
}

}  // namespace crossbow
