// The number of learners of a run: given, remembered, or looked for while it trains.
#pragma once

#include <atomic>
#include <chrono>
#include <optional>
#include <string>

#include "graph/graph.h"
#include "learner/auto_tuner.h"
#include "plan/tuner.h"
#include "train/notes.h"
#include "train/observer.h"

namespace crossbow {

/// Tells the observer what it tries and finds, and lets the tuner remember it for this machine,
/// net, batch, precision and algorithm. One thread, but for `moving`.
class LearnerSearch {
 public:
  LearnerSearch(const TrainOptions& options, const Graph& forward, Tuner& memory,
                Observer& observer);

  /// What a new run starts with, of at most so many learners on a device.
  Arrangement start(int most);
  /// What a resumed run had settled on, or else had just tried.
  void resume(const Arrangement& arrangement, bool settled);
  bool settled() const { return !tuner_ || tuner_->settled(); }
  LearnerChoice choice() const;
  /// More on a device cannot be had, or have nothing to do; what runs stays.
  void limit(int learners);

  /// The clock of the throughput starts, at no batches.
  void begin_segment();
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
  Observer& observer_;
  Arrangement given_;               // where there is nothing to look for
  std::optional<AutoTuner> tuner_;  // where there is
  std::atomic<bool> moving_{false};
  std::chrono::steady_clock::time_point mark_;  // up to which the window is accounted for
  int64_t marked_ = 0;                          // batches of the segment until then
  double seconds_ = 0;                          // of the window
  int64_t batches_ = 0;
};

}  // namespace crossbow
