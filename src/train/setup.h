// From resolved options to the parts of a run.
#pragma once

#include <climits>
#include <memory>
#include <optional>
#include <string>

#include "data/pipeline.h"
#include "learner/arrangement.h"
#include "learner/engine.h"
#include "models/loss.h"
#include "plan/program.h"
#include "sync/sync.h"
#include "train/options.h"

namespace crossbow {

/// "cpu:0,cpu:1" is two devices of one kind.
struct DeviceList {
  std::string kind;  // as CompileOptions::device
  int count = 1;
};
/// Throws UsageError if it says anything else.
DeviceList device_list(std::string_view text);

/// Of learners and their threads, what the options and the algorithm allow, to be tried in that
/// order; just one where they leave nothing open, at least one. `most`: learners of a device that
/// have a batch in each iteration; more than that are had only by asking for them.
std::vector<Arrangement> candidates(const TrainOptions& options, int64_t most = INT_MAX);

/// Training images in another order each epoch, with the options' augmentation.
data::PipelineOptions augmented(const TrainOptions& options);

/// What those learners train on, with as many batches ahead as they need.
data::PipelineOptions training_pipeline(const TrainOptions& options,
                                        const Arrangement& arrangement);

/// Workers for one of these, on the options' devices.
ThreadPlan thread_plan(const TrainOptions& options, const Arrangement& arrangement);

/// What the options' learners update their weights with.
Optimizer optimizer_of(const TrainOptions& options);

CompileOptions compile_options(const TrainOptions& options, const Arrangement& arrangement,
                               AlgorithmChooser* chooser);

/// What the device computes in where it lacks the precision asked for, else that.
std::string used_precision(const TrainOptions& options);

/// The loss that the options name.
Loss loss_of(const TrainOptions& options);

/// What a user who asked for a precision should know of it: a sentence, or nothing.
std::optional<std::string> precision_note(const TrainOptions& options);

EngineOptions engine_options(const TrainOptions& options, const Arrangement& arrangement,
                             const BatchShape& batch);

/// Training images on which to measure the batch-norm statistics of the evaluated model; 0 for
/// those of the learners. `states` says whether the net has any. Throws UsageError if they are
/// asked for and it has none.
int64_t bn_images(const TrainOptions& options, const SyncAlgorithm* sync, bool states);

/// The algorithm that the options name, for that many learners in all; null for a learner on its
/// own, or where one learner makes it plain SGD. Throws as make_sync does.
std::unique_ptr<const SyncAlgorithm> sync_of(const TrainOptions& options, int learners);
inline std::unique_ptr<const SyncAlgorithm> sync_of(const TrainOptions& options,
                                                    const Arrangement& arrangement) {
  return sync_of(options, device_list(options.device).count * arrangement.learners);
}

}  // namespace crossbow
