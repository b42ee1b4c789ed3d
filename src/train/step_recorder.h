// What becomes of the losses of steps that are done.
#pragma once

#include <optional>
#include <span>

#include "train/observer.h"
#include "train/record.h"
#include "train/run_config.h"
#include "train/run_folder.h"
#include "train/schedule.h"

namespace crossbow {

/// Moves a run's position on, iteration by iteration; sums up its losses, writes every so many
/// steps a line of metrics, and shows the observer a smooth loss. One thread.
class StepRecorder {
 public:
  /// Of an epoch of so many samples. `folder` may be null; all that is referred to must outlive it.
  StepRecorder(Position& position, const RunConfig& config, int64_t samples,
               const Schedule& schedule, RunFolder* folder, Observer& observer);

  int64_t samples_at(int64_t batch) const;  // of this epoch; in the whole run
  int64_t samples_seen() const { return samples_at(position_.batch); }
  /// Of a step with that batch, by all learners there are now.
  double rate_at(int64_t batch) const {
    const int64_t samples = samples_at(batch);
    return schedule_.rate(samples) * position_.rate_factor.at(samples);
  }

  /// The next losses of an iteration, one a batch. Returns the first that is not finite, whose
  /// batch is then the next.
  std::optional<float> take(std::span<const float> losses);
  /// The iteration has no more of them.
  void end_iteration();

 private:
  void log(double rate);
  void show(float loss);

  Position& position_;
  const int64_t batch_, samples_, log_every_;
  const Schedule& schedule_;
  RunFolder* const folder_;
  Observer& observer_;
};

}  // namespace crossbow
