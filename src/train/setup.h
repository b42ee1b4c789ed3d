// From resolved options to the parts of a run.
#pragma once

#include <memory>

#include "learner/engine.h"
#include "plan/program.h"
#include "sync/sync.h"
#include "train/options.h"

namespace crossbow {

CompileOptions compile_options(const TrainOptions& options, AlgorithmChooser* chooser);

/// `last_rows`: of an epoch's last batch; 0 if it is whole.
EngineOptions engine_options(const TrainOptions& options, int64_t last_rows);

/// How many teams of the options' threads the machine's cores make, at least one.
int worker_count(const TrainOptions& options);

/// What the algorithm `options.sync` is told; unresolved options may be asked for too.
SyncOptions sync_options(const TrainOptions& options);

/// The algorithm that the options name; null for a learner on its own, or where one learner makes
/// it plain SGD.
std::unique_ptr<const SyncAlgorithm> sync_of(const TrainOptions& options);

}  // namespace crossbow
