// The number of learners of a run: given, remembered, or looked for while it trains.
#pragma once

#include <atomic>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "learner/auto_tuner.h"
#include "plan/tuner.h"
#include "train/notes.h"
#include "train/observer.h"
#include "train/record.h"
#include "train/run_config.h"
#include "train/throughput.h"
#include "train/train.h"

namespace crossbow {

/// Tells the observer what it tries and finds, and lets the tuner remember it for this machine,
/// net, batch, precision and algorithm. In a resumed run, the changes that it made before come
/// first, at the same places. One thread, but for `moving`.
class LearnerSearch {
 public:
  /// What is passed by reference, but for the first two, must outlive the search.
  LearnerSearch(const RunConfig& config, const Graph& forward, Tuner& memory,
                Throughput& throughput, Observer& observer);

  /// What a new run starts with.
  Arrangement start();
  /// Instead, where choice() is `remembered` and cannot be had.
  Arrangement start_below_remembered();
  /// What a resumed run had settled on, or else had just tried, and the changes that it made
  /// afterwards: nothing is looked for before the last of them. The noise scale is what it was
  /// then.
  void resume(const Arrangement& arrangement, bool settled, std::vector<LearnerChange> changes,
              std::optional<double> noise_scale);
  bool settled() const { return !tuner_ || tuner_->settled(); }
  LearnerChoice choice() const;
  /// By the search that runs or that ran last.
  std::vector<LearnerTrial> tried() const;
  /// There is memory for no more on a device; what runs stays.
  void limit(int learners);
  /// The change that was due could not be made, nor could one to more learners.
  void refuse();

  /// Between segments: what the gradients' noise scale is now, in images.
  void reconsider(std::optional<double> noise_scale);

  void begin_segment() { throughput_.begin_segment(); }
  /// So many batches of the segment are done by now.
  void progress(int64_t batches);
  /// Whether the segment should end, at whatever place, because a change is due. Any thread.
  bool moving() const { return ahead_.empty() && moving_.load(std::memory_order_relaxed); }

  /// The change to be made at this place, before which the run had settled or not; nothing if there
  /// is none (any more).
  std::optional<LearnerChange> due(std::pair<int64_t, int64_t> place, bool settled) const;
  /// It has been made.
  void made(const LearnerChange& change);
  /// Changes that were made before and are to be made again.
  int64_t ahead() const { return static_cast<int64_t>(ahead_.size()); }
  /// The place of the next of them, if it is in that epoch: its batch, else `otherwise`.
  int64_t next_batch(int64_t epoch, int64_t otherwise) const {
    return !ahead_.empty() && ahead_.front().epoch == epoch ? ahead_.front().batch : otherwise;
  }

 private:
  Arrangement wanted() const { return tuner_ ? tuner_->current() : given_; }
  template <typename... Args>
  void make_tuner(const Args&... args);
  double share_of(const Arrangement& arrangement) const;
  Arrangement start_anew();
  void start_again(const Arrangement& arrangement, bool settled);
  /// Of a run that has settled on it, and looks again as the noise grows.
  void stay_on(const Arrangement& arrangement);
  std::optional<AutoTuner::Trial> remembered();
  void tell(const AutoTuner::Trial& trial);
  void remember_best();
  void keep_at_most(int learners);
  void settle();
  void tell_choice();

  const int64_t batch_;
  const int devices_;
  const int cores_;  // of this machine, for that kind of device
  std::vector<Arrangement> candidates_;
  const bool retune_;
  const std::string key_;
  Tuner& memory_;
  Throughput& throughput_;
  Observer& observer_;
  const bool for_goodput_;
  bool by_noise_ = false;  // has moved on from what it had settled on
  std::optional<double> noise_scale_;
  Arrangement given_;               // where there is nothing to look for
  std::optional<AutoTuner> tuner_;  // where there is
  std::atomic<bool> moving_{false};
  std::deque<LearnerChange> ahead_;
};

}  // namespace crossbow
