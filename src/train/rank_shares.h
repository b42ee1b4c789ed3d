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

  /// From now on shares are counted from that batch of the epoch.
  void begin_at(int64_t batch) { begin_ = batch; }
  /// By how long each rank took for its share of these batches. Whether shares change: only where
  /// more than a twentieth of the time is lost, if that saves as much or half of the loss. A round
  /// has at most so many batches, or about half a second's.
  bool measure(int64_t first, int64_t batches, std::span<const double> seconds, int64_t most);

  bool are_measured() const { return !speeds_.empty(); }
  /// Those of another run, which has measured; they change.
  void adopt(std::vector<int64_t> counts);
  /// Of a round, by rank.
  const std::vector<int64_t>& counts() const { return counts_; }
  /// Of consecutive batches so many make a round, in which each rank has its share.
  int64_t round() const { return round_; }
  data::BatchShare of(int rank) const;

 private:
  using Counts = std::vector<int64_t>;
  Counts counts_for(int64_t round) const;
  /// Of the time that ranks need with these, what they would need if batches could be cut.
  double efficiency(const Counts& counts) const;

  const int64_t learners_;      // of all ranks
  std::vector<double> speeds_;  // batches a second, smoothed
  double seen_ = 0;             // seconds of training
  int64_t round_, begin_ = 0;
  Counts counts_;  // of a round, by rank
};

}  // namespace crossbow
