// What a run's options say of clocks and of asynchronous nodes.
#pragma once

#include <string>

#include "learner/async_engine.h"
#include "train/options.h"

namespace crossbow {

/// Whether time is virtual: of nodes it decides whose turn it is; of learners that wait for each
/// other it is told how long they would take.
bool is_virtual(const TrainOptions& options);
/// Of valid options.
Pace pace_of(const TrainOptions& options);

// These throw UsageError naming the option that makes no sense.
void validate_clock(const TrainOptions& options);
void validate_stragglers(const TrainOptions& options, int learners);
void validate_nodes(const TrainOptions& options, const AsyncAlgorithm& algorithm);

/// Of valid options. Throws Error if the run to be replayed has lost its turns.
AsyncSettings node_settings(const TrainOptions& options, int nodes);

/// The options of the run in `folder` as of one that repeats it, but for the folder that this one
/// writes. Throws UsageError if it has no order to repeat, or is not at the end of an epoch.
TrainOptions options_to_replay(const std::string& folder);
/// Throws UsageError if resolved options that name a run to be replayed are not of such a run.
void expect_replay(const TrainOptions& options);

}  // namespace crossbow
