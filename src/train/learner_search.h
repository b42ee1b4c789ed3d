// The number of learners of a run: given, remembered, or looked for while it trains.
#pragma once

#include <atomic>
#include <optional>
#include <string>

#include "graph/graph.h"
#include "learner/auto_tuner.h"
#include "plan/tuner.h"
#include "train/notes.h"
#include "train/observer.h"
#include "train/throughput.h"

namespace crossbow {

/// Tells the observer what it tries and finds, and lets the tuner remember it for this machine,
/// net, batch, precision and algorithm. One thread, but for `moving`.
class LearnerSearch {
 public:
  /// At most `most` learners on a device. What is passed by reference must outlive the search.
  LearnerSearch(const TrainOptions& options, int64_t most, const Graph& forward, Tuner& memory,
                Throughput& throughput, Observer& observer);

  /// What a new run starts with.
  Arrangement start();
  /// What a resumed run had settled on, or else had just tried.
  void resume(const Arrangement& arrangement, bool settled);
  bool settled() const { return !tuner_ || tuner_->settled(); }
  LearnerChoice choice() const;
  /// More on a device cannot be had, or have nothing to do; what runs stays.
  void limit(int learners);

  void begin_segment() { throughput_.begin_segment(); }
  /// So many batches of the segment are done by now.
  void progress(int64_t batches);
  /// Whether the segment should end because the run is to go on with wanted(). Any thread.
  bool moving() const { return moving_.load(std::memory_order_relaxed); }
  Arrangement wanted() const { return tuner_ ? tuner_->current() : given_; }
  void moved() { moving_ = false; }

 private:
  std::optional<AutoTuner::Trial> remembered();
  void tell(const AutoTuner::Trial& trial);
  void settle();

  const int64_t batch_;
  const int devices_;
  std::vector<Arrangement> candidates_;
  const bool retune_;
  const std::string key_;
  Tuner& memory_;
  Throughput& throughput_;
  Observer& observer_;
  Arrangement given_;               // where there is nothing to look for
  std::optional<AutoTuner> tuner_;  // where there is
  std::atomic<bool> moving_{false};
};

}  // namespace crossbow
