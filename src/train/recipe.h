// What a run uses where its options leave the choice open.
#pragma once

#include "learner/optimizer.h"
#include "models/model.h"
#include "plan/program.h"
#include "sync/sync.h"
#include "train/options.h"

namespace crossbow {

/// The options with everything set that has a default: the recipe's values, learners and threads
/// for the machine's cores. Only target_accuracy, clip_norm, out and resume stay unset if they
/// were, and the milestones and gamma of a schedule that has none. Idempotent.
TrainOptions with_recipe(TrainOptions options, const Recipe& recipe);

/// How to compile for the options' device, precision and threads. Resolved options, as below.
CompileOptions compile_options(const TrainOptions& options, AlgorithmChooser* chooser);

/// What the learners' solver keeps.
Sgd sgd_of(const TrainOptions& options);

/// What the algorithm `options.sync` is told; unresolved ones may be asked for too.
SyncOptions sync_options(const TrainOptions& options);

/// The algorithm that the options name; null for a learner on its own, or where one learner makes
/// it plain SGD.
std::unique_ptr<const SyncAlgorithm> sync_of(const TrainOptions& options);

/// The shapes that the options' model is built for: those of their data set if they name one,
/// otherwise the model's own.
ModelSpec spec_of(const TrainOptions& options);

}  // namespace crossbow
