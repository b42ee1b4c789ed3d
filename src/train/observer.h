// How a run is watched, and asked to stop.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <string_view>

#include "train/options.h"
#include "train/record.h"

namespace crossbow {

/// Written by the training thread a few times a second, without locks; read by whoever draws it.
/// The fields are not consistent with each other to the step.
struct Progress {
  enum class Phase { preparing, timing_kernels, training, evaluating };

  std::atomic<Phase> phase{Phase::preparing};
  std::atomic<int64_t> timed{0};           // kernels, while some are
  std::atomic<int64_t> epoch{0};           // from 0
  std::atomic<int64_t> done{0}, total{1};  // samples of this epoch, or of the test split
  std::atomic<float> loss{std::numeric_limits<float>::quiet_NaN()};  // of training, smoothed
};

/// Called on the training thread unless said otherwise; every call may be ignored. An
/// implementation that throws ends the run.
class Observer {
 public:
  virtual ~Observer() = default;

  /// Something the user should know that is no failure: one sentence.
  virtual void note(std::string_view) {}
  /// While the data set is made ready.
  virtual void loading(std::string_view /*what*/, int64_t /*done*/, int64_t /*total*/) {}
  /// Before the first step, with resolved options.
  virtual void started(const TrainOptions&, int64_t /*samples*/) {}
  virtual void epoch_done(const EpochRecord&) {}
  /// Asked before every iteration, by any worker, and before a kernel is timed; true saves a
  /// checkpoint and ends the run.
  virtual bool stop_requested() { return false; }

  Progress progress;
  /// Set while a run is made ready once more, after the loss of a rank: notes may repeat earlier
  /// ones.
  bool repeats = false;
};

}  // namespace crossbow
