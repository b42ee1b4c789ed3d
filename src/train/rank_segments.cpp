#include "train/rank_segments.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "comm/world.h"
#include "core/error.h"
#include "train/cluster.h"
#include "train/nodes_config.h"

namespace crossbow {

RankSegments::RankSegments(const TeamConfig& team, const TrainOptions& options, bool resumed,
                           bool keeps, int64_t epoch_batches)
    : learners_(team.learners()),
      epoch_batches_(epoch_batches),
      keeps_(keeps),
      replay_(team.async ? options.replay : std::nullopt) {
  if (!team.async) return;
  shares_.emplace(team.ranks, team.learners_here());
  if (resumed) turns_.segments.push_back({0, shares_->counts()});
  if (replay_) to_repeat_ = segments_to_repeat(options);
}

int64_t RankSegments::length(int64_t left) {
  if (replay_) return next_to_repeat(left).batches;
  const int64_t round = shares_ ? shares_->round() : learners_;
  return std::min(left, std::max<int64_t>(1, most_iterations_ * learners_ / round) * round);
}

void RankSegments::serve(int64_t batch, data::TrainingBatches& source) {
  if (!shares_) return;
  has_new_shares_ = false;
  shares_->begin_at(batch);
  source.serve(0, *share());
}

std::optional<data::BatchShare> RankSegments::share() const {
  if (!shares_) return {};
  return shares_->of(world_rank());
}

void RankSegments::end(int64_t first, std::span<float> losses, double seconds,
                       double share_seconds) {
  merge(losses);
  const bool unknown = shares_ && !shares_->are_measured();  // until then ranks may wait long
  const double length = unknown ? 0.1 : 0.5;                 // seconds
  const double iterations = static_cast<double>(losses.size()) / static_cast<double>(learners_);
  const auto most = std::llround(length * iterations / std::max(seconds, 1e-6));
  if (iterations >= 1) most_iterations_ = std::clamp<int64_t>(most, 1, 2 * most_iterations_);
  most_iterations_ = agreed(most_iterations_);
  if (shares_) share_out(first, std::ssize(losses), share_seconds);
}

void RankSegments::share_out(int64_t first, int64_t done, double share_seconds) {
  constexpr int64_t kRounds = 4;  // of an epoch, at least
  const std::vector<double> seconds = of_all_ranks(share_seconds);
  RankTurns::Segment segment{done, {}};
  if (replay_) {
    segment.shares = to_repeat_.back().shares;
    to_repeat_.pop_back();
    adopt(segment.shares);
  } else if (shares_->measure(first, done, seconds, epoch_batches_ / kRounds)) {
    segment.shares = shares_->counts();
    has_new_shares_ = true;
  }
  if (keeps_) turns_.segments.push_back(std::move(segment));
}

const RankTurns::Segment& RankSegments::next_to_repeat(int64_t left) {
  while (!to_repeat_.empty() && to_repeat_.back().batches == 0) {
    turns_.segments.push_back(to_repeat_.back());
    adopt(to_repeat_.back().shares);
    to_repeat_.pop_back();
  }
  if (to_repeat_.empty() || to_repeat_.back().batches > left) {
    fail("cannot repeat {}: its file {} is of another run", *replay_, kTurnsFile);
  }
  return to_repeat_.back();
}

void RankSegments::adopt(const std::vector<int64_t>& shares) {
  if (shares.empty()) return;
  shares_->adopt(shares);
  has_new_shares_ = true;
}

std::optional<std::string> RankSegments::take_turns(const std::vector<int32_t>& own) {
  if (!shares_) return "";
  RankTurns turns = std::exchange(turns_, {});
  turns.events = gathered_on_first(own);
  return world_rank() == 0 && !turns.segments.empty() ? encode_turns(turns) : "";
}

}  // namespace crossbow
