// What a run has measured so far, and where it stands.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "learner/arrangement.h"
#include "learner/engine_place.h"
#include "learner/noise_scale.h"
#include "train/rate_scaling.h"

namespace crossbow {

/// Of images that are not trained on.
struct Evaluation {
  double loss = 0;  // mean over all images
  /// A fraction; of images with sets of classes, precision@1. Unset where labels are numbers.
  std::optional<double> accuracy = {};
  std::optional<double> top5 = {};  // with many classes: how often the five likeliest have it
  std::optional<double> auc = {};   // of two classes: the area under the ROC curve
  std::optional<double> rmse = {};  // of numbers: the square root of their mean squared error
};

/// One epoch; times are of training alone.
struct EpochRecord {
  int64_t epoch = 0;      // from 1
  double train_loss = 0;  // mean over the epoch's samples, each before its update
  /// As Evaluation's; unset where the epoch was not evaluated.
  std::optional<double> test_loss, test_accuracy, test_top5, test_auc, test_rmse;
  double seconds = 0, images_per_second = 0;
  int64_t learners = 1;  // of each device, at the epoch's end
  /// Where they are measured, at the epoch's end. The noise scale in images, and unset also where
  /// it is beyond measure.
  std::optional<double> noise_scale, efficiency;
  std::optional<double> goodput;   // images/s times efficiency
  std::optional<double> distance;  // Engine::distance
  /// At the epoch's end, as EnginePlace's, and in seconds where a step is known to take so many.
  std::optional<double> virtual_time, virtual_seconds;
};

/// Whether the test of `a` went better than that of `b`: with a higher accuracy or, where there is
/// none, a smaller loss. Both are evaluated.
bool is_better(const EpochRecord& a, const EpochRecord& b);
/// The evaluated epoch with the best test, the earliest of equals; null if there is none.
const EpochRecord* best_of(const std::vector<EpochRecord>& history);
/// How many evaluations have followed that one.
int64_t evaluations_since_best(const std::vector<EpochRecord>& history);

/// Of unlike workers one, in the run so far. A plain value.
struct WorkerReport {
  std::string kind, device;
  int64_t updates = 0, rows = 0;
  int64_t batch = 0;                     // of its next step
  int64_t batch_min = 0, batch_max = 0;  // of its steps; 0 if it had none
  int64_t repeated_rows = 0;             // trained on although they may have been before
  double busy_fraction = 0;              // of its nodes' time
  int failed_nodes = 0, nodes = 0;

  bool failed() const { return failed_nodes == nodes; }
};

/// A rank that was lost, and the others went on. They train again what they had done since they had
/// last met, so no sample is left out.
struct RankLoss {
  int rank;  // its number then
  std::string host;
  int64_t epoch;   // from 1
  double seconds;  // from the beginning of the run, or of its going on, until it was noticed
  double pause;    // in seconds: from then until the others went on
  int64_t repeated_samples;  // on which the others had trained, and train again
};

/// From a place between two steps on, so many learners train on each device.
struct LearnerChange {
  int64_t epoch = 0, batch = 0;  // to do next, from 0
  Arrangement arrangement;
  bool settled = false;  // on that, for good

  std::pair<int64_t, int64_t> place() const { return {epoch, batch}; }
  bool operator==(const LearnerChange&) const = default;
};

/// Between two steps. `batch` may be the number of batches: then evaluation is yet to come.
struct Position {
  int64_t epoch = 0, batch = 0;  // to do next, from 0
  int64_t batch_rows = 0;        // of a whole batch; 0 if an older version wrote it
  Arrangement arrangement;       // of the learners
  int64_t ranks = 1;             // each with such an arrangement
  bool settled = false;          // on that, for good
  int64_t step = 0;              // done by each learner, in the whole run
  int64_t open_batches = 0;      // done of nodes' last step, which has others yet to do
  double open_loss_sum = 0;      // of these: loss times rows
  EnginePlace engine;
  RateFactor rate_factor;      // that the number of learners asks for
  double loss_sum = 0;         // this epoch: loss times rows
  double seconds = 0;          // this epoch: of training
  double waiting_seconds = 0;  // in the whole run: of training, waiting for data
  double wall_seconds = 0;     // in the whole run, start-up and evaluation included
  int64_t changes = 0;         // lines of learners.jsonl that lie behind
  double logged_loss_sum = 0;  // since the last line of metrics.jsonl: loss times rows
  int64_t logged_rows = 0;     // since that line
};

}  // namespace crossbow
