// The training loop and what it works with.
#pragma once

#include <chrono>

#include "data/pipeline.h"
#include "learner/engine.h"
#include "plan/tuner.h"
#include "train/checkpoint.h"
#include "train/evaluation.h"
#include "train/run_folder.h"
#include "train/schedule.h"
#include "train/train.h"

namespace crossbow {

/// From the shape of a data set to the forward graph that `classifier` describes.
using GraphFunction = std::function<Graph(const ModelSpec& spec)>;

/// One run. Everything is opened, compiled and allocated when it is made, in the order of its
/// members; `run` then only computes, on the engine's workers. One thread.
class Trainer {
 public:
  /// `options` are resolved and valid; `from` is the state to start from, or null.
  Trainer(const GraphFunction& graph, const TrainOptions& options, const Checkpoint* from,
          Observer& observer);

  TrainResult run();

 private:
  /// These return false if they were asked to stop in between.
  bool train_epoch();
  bool train_segment();
  bool finish_epoch();
  bool evaluate(EpochRecord& record);

  /// Takes note of the iterations that ended since the last call, of the segment that began at
  /// `first`; `done` batches of it are done.
  void report(int64_t first, int64_t done);
  void report_iteration(std::span<const float> losses);
  double rate(int64_t batch) const { return schedule_.rate(samples_at(batch)); }
  void save();
  bool reached_target() const;
  TrainResult result(bool interrupted) const;
  [[noreturn]] void fail_not_finite(float loss, double lr) const;

  int64_t samples() const { return pipeline_.samples(); }
  int64_t samples_at(int64_t batch) const;  // of this epoch; in the whole run
  int64_t samples_seen() const { return samples_at(position_.batch); }
  int64_t rows_of(int64_t batch) const;

  const TrainOptions options_;
  Observer& observer_;
  const std::chrono::steady_clock::time_point start_;
  const std::shared_ptr<const data::Dataset> dataset_;
  Tuner tuner_;
  CompiledModel model_;
  Engine engine_;
  Evaluator evaluator_;
  data::Pipeline pipeline_;
  const Schedule schedule_;
  std::optional<RunFolder> folder_;
  std::vector<float> losses_;  // of a segment, by batch
  Position position_;
  std::vector<EpochRecord> history_;
};

}  // namespace crossbow
