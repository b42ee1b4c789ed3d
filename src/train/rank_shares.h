// Which batches each of several ranks takes that do not wait for each other.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/batch_source.h"

namespace crossbow {

/// In proportion to the ranks' speeds, so that they are done with a segment at about the same time.
/// All ranks have the same, from the same numbers.
class RankShares {
 public:
  /// At first all are equal. `learners`: of each rank.
  RankShares(int ranks, int learners);

  /// By how long each rank took for its share of a segment with so many batches. Whether shares
  /// change: only where that would save some percent of the time.
  bool measure(int64_t batches, std::span<const double> seconds);

  /// Of consecutive batches so many make a round, in which each rank has its share.
  int64_t round() const { return round_; }
  data::BatchShare of(int rank, int64_t begin) const;

 private:
  using Counts = std::vector<int64_t>;
  Counts counts_for(int64_t round) const;
  /// Of the time that ranks would need if batches could be cut, what they need with these.
  double efficiency(const Counts& counts) const;

  const int64_t learners_;      // of all ranks
  std::vector<double> speeds_;  // batches a second, smoothed
  int64_t round_;
  Counts counts_;  // of a round, by rank
};

}  // namespace crossbow
