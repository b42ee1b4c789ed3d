// What a run uses where its options leave the choice open.
#pragma once

#include "models/model.h"
#include "train/options.h"
#include "train/run_config.h"

namespace crossbow {

/// The options with everything set that the sync algorithm needs (SolverNeeds) and, after that,
/// that the recipe knows. Unset stay learners and threads, what the sync algorithm decides,
/// target_accuracy, clip_norm, out and resume, and the milestones and gamma of a schedule that has
/// none. Idempotent.
TrainOptions with_recipe(TrainOptions options, const Recipe& recipe);

/// Whether the options' set is made from pictures of any size.
bool has_pictures(const TrainOptions& options);

/// For the samples of a set, as its batches have them.
ModelSpec spec_of(const data::Info& info, int64_t batch, const Loss& loss);
/// For the set that the options name, which is opened if need be, or else for the samples that the
/// model is known by. `config` is what the options came to.
ModelSpec spec_of(const TrainOptions& asked, const RunConfig& config);

}  // namespace crossbow
