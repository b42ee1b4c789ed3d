// What the ranks of a cluster agree on between segments of training.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/batch_source.h"
#include "train/options.h"
#include "train/rank_shares.h"
#include "train/team_config.h"
#include "train/turns.h"

namespace crossbow {

/// How long segments are; where ranks do not wait for each other, which batches each takes, what of
/// that is written down, and what is repeated. All ranks call the same, from one thread each.
class RankSegments {
 public:
  /// Of a run that goes on from a checkpoint (`resumed`), or perhaps repeats another; `keeps`:
  /// whether what chance decides is written down. An epoch has so many batches.
  RankSegments(const TeamConfig& team, const TrainOptions& options, bool resumed, bool keeps,
               int64_t epoch_batches);

  /// Of the epoch's batches that are left, those of the next segment.
  int64_t length(int64_t left);
  /// Whether shares have changed since `serve`, which is then to be called before the next segment.
  bool has_new_shares() const { return has_new_shares_; }
  /// From that batch of the epoch on the source has this rank's share.
  void serve(int64_t batch, data::TrainingBatches& source);
  /// This rank's; nothing where ranks wait for each other, whose learners take turns.
  std::optional<data::BatchShare> share() const;

  /// All ranks have done the batches from `first` on, and this one's losses, 0 for others' batches,
  /// become those of all. It took `seconds`, of which its own share `share_seconds`, before it
  /// waited.
  void end(int64_t first, std::span<float> losses, double seconds, double share_seconds);

  /// On the first rank what has been decided since the last call, with the turns that the nodes of
  /// all ranks took, each of which passes its own; empty if there is none, and on other ranks.
  /// Nothing if it cannot be written.
  std::optional<std::string> take_turns(const std::vector<int32_t>& own);

 private:
  /// The next segment of the run that is repeated; before, the shares that it was resumed with.
  const RankTurns::Segment& next_to_repeat(int64_t left);
  void adopt(const std::vector<int64_t>& shares);
  void share_out(int64_t first, int64_t done, double share_seconds);

  const int64_t learners_, epoch_batches_;
  const bool keeps_;
  const std::optional<std::string> replay_;  // the run that is repeated
  int64_t most_iterations_ = 1;              // of the next segment
  std::optional<RankShares> shares_;         // of nodes that do not wait
  bool has_new_shares_ = false;
  RankTurns turns_;                            // of these, since the last call of take_turns
  std::vector<RankTurns::Segment> to_repeat_;  // the last one first
};

}  // namespace crossbow
