// What a run is, with nothing left open but which of some teams trains it.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "data/dataset.h"
#include "data/pipeline.h"
#include "learner/engine.h"
#include "learner/memory.h"
#include "models/loss.h"
#include "models/model.h"
#include "plan/program.h"
#include "train/options.h"
#include "train/record.h"
#include "train/schedule.h"
#include "train/team_config.h"

namespace crossbow {

/// One, or one a worker if these are unlike, over the parameter layout of the first.
using Models = std::span<CompiledModel* const>;

/// Sparse ones, which a learner may take in several steps: one takes a microsecond, less than to be
/// given its row.
constexpr int64_t kSparseRowsAtATime = 64;

/// A plain value, made by resolve().
struct RunConfig {
  /// Resolved, to be recorded and printed. Whoever acts on a setting takes it from the rest.
  TrainOptions options;

  std::string model, data;
  Loss loss;
  DeviceList device;
  DType precision = DType::f32;  // that the device computes in
  /// What the team may be, to be tried in that order; at least one unless the run is resumed.
  std::vector<TeamConfig> teams;

  /// Rows that a learner takes at a time, in so many steps; those of a step, in so many parts.
  int64_t batch = 1, steps = 1, splits = 1;
  data::Augment augment;
  int64_t shuffle_block = 0;
  double centre = 1;  // of test pictures, see data::Info
  Optimizer optimizer = make_sgd();
  double clip_norm = 0;    // 0: no limit
  EpochSchedule schedule;  // of one learner
  std::string lr_scaling = "none";
  uint64_t seed = 0;
  std::map<std::string, std::span<const float>> first_weights;
  /// Of the colour images of a set by name, in place of the set's.
  std::optional<Normalisation> normalisation;

  int64_t epochs = 1, eval_every = 1, log_every = 1;
  double save_every = 30;  // minutes
  /// Infinite where there is no such target. The loss is of the test, or of training.
  double target_accuracy = std::numeric_limits<double>::infinity();
  double target_loss = -std::numeric_limits<double>::infinity();
  bool target_on_train = false;
  int64_t patience = std::numeric_limits<int64_t>::max();  // evaluations
  bool deterministic = false, retune = false, keep_best = false;
  bool tune_for_goodput = false;
  std::optional<Pace> pace = {};      // on the virtual clock
  int64_t asked_period = 0;           // of exchanges, in steps; 0: the algorithm's own
  std::string replay;                 // folder of a run whose turns are taken again; empty: none
  std::optional<std::string> freeze;  // pattern of the names of frozen parameters

  /// Whether nothing happens between two steps of a learner, but for the change of its weights.
  bool steps_freely(const TeamConfig& team) const {
    return !team.sync && (!team.async || is_live(team)) && team.workers.empty() && !pace &&
           splits == 1;
  }
  /// Whether the team's algorithm and solver tell how noisy gradients are.
  bool measures_noise(const TeamConfig& team) const;
  bool is_reached_by(const EpochRecord& epoch) const {
    const std::optional<double> loss = target_on_train ? epoch.train_loss : epoch.test_loss;
    return epoch.test_accuracy >= target_accuracy || (loss && *loss <= target_loss);
  }

  /// One of `teams`, or another that the run had elsewhere. Throws as make_sync does.
  TeamConfig team(const Arrangement& arrangement) const;
  /// Without teams of more than `most` learners on a device, except one that was asked for.
  RunConfig with_at_most(int64_t most) const;

  /// The forward graph as the run trains it. Throws as freeze does.
  Graph with_frozen(Graph forward) const;

  std::shared_ptr<const data::Dataset> open_data(
      std::function<void(std::string_view what, int64_t done, int64_t total)> progress) const;
  /// Training images in another order each epoch: as unlike workers ask for them, or with as many
  /// batches ahead as the learners of a device need.
  std::unique_ptr<data::TrainingBatches> training_source(const data::Dataset& dataset) const;
  /// With as many batches ahead as that many learners in all need.
  data::PipelineOptions training_batches(int learners) const;
  /// Of a team's model, or that of one of its unlike workers.
  CompileOptions compile_options(const TeamConfig& team, AlgorithmChooser* chooser,
                                 size_t worker = 0) const;
  /// `models` are compiled with these options, one a worker if these are unlike, and have been
  /// asked for the programs that will run. Throws Error if the turns of a run to be replayed cannot
  /// be read.
  std::unique_ptr<Engine> engine(Models models, const TeamConfig& team, const BatchShape& shape,
                                 int64_t samples) const;
  /// What that engine will allocate.
  LearnerMemory memory(Models models, const TeamConfig& team, const BatchShape& shape) const;
  /// Whether all its devices have kernels for the op.
  bool has_kernels(std::string_view op) const;
  /// Whether nodes change one set of weights in no order, which the real clock allows.
  bool is_live(const TeamConfig& team) const;
  /// Training images on which to measure the batch-norm statistics of the evaluated model; 0 for
  /// those of the learners. `states` says whether the net has any. Throws UsageError if they are
  /// asked for and it has none.
  int64_t bn_images(const TeamConfig& team, bool states) const;

 private:
  /// Of unlike workers the first that is away from the run's device; else null.
  Device* first_away() const;
  Optimizer optimizer_of(const TeamConfig& team) const;
  EngineOptions engine_options(const TeamConfig& team, const BatchShape& shape) const;
};

/// From what a user says to what a run is: fills in what the algorithm needs and the recipe knows.
/// Throws UsageError for a value out of range, an impossible combination, or what this version
/// cannot do yet. Resolved options come to the same again.
RunConfig resolve(TrainOptions options, const Recipe& recipe);

/// What the device of these options computes in: the precision asked for, or f32 where it lacks
/// that. TF32 is f32 whose products are rounded.
DType used_precision(const TrainOptions& options);
/// The same by name: "f32", "tf32" or "bf16".
std::string_view precision_name(const TrainOptions& options);

}  // namespace crossbow
