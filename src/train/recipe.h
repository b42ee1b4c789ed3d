// What a run uses where its options leave the choice open.
#pragma once

#include "models/model.h"
#include "train/options.h"

namespace crossbow {

/// The options with everything set that the sync algorithm needs (SolverNeeds) and, after that,
/// that the recipe knows. Unset stay learners and threads, what the sync algorithm decides,
/// target_accuracy, clip_norm, out and resume, and the milestones and gamma of a schedule that has
/// none. Idempotent.
TrainOptions with_recipe(TrainOptions options, const Recipe& recipe);

/// The shapes that the options' model is built for: those of their data set if they name one,
/// otherwise the model's own.
ModelSpec spec_of(const TrainOptions& options);

}  // namespace crossbow
