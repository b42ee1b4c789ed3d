// What a run's options say of asynchronous nodes.
#pragma once

#include <string>

#include "learner/async_engine.h"
#include "train/options.h"
#include "train/turns.h"

namespace crossbow {

/// Throws UsageError naming the option that makes no sense.
void validate_nodes(const TrainOptions& options, const AsyncAlgorithm& algorithm);

/// Of valid options, and so many nodes, of this rank if there are several. Throws Error if the run
/// to be replayed has lost its turns.
AsyncSettings node_settings(const TrainOptions& options, int nodes);
/// Of options that repeat a run of several ranks, the last segment first.
std::vector<RankTurns::Segment> segments_to_repeat(const TrainOptions& options);

/// The options of the run in `folder` as of one that repeats it, but for the folder that this one
/// writes. Throws UsageError if it has no order to repeat, or is not at the end of an epoch.
TrainOptions options_to_replay(const std::string& folder);
/// How many that run has.
int64_t ranks_to_replay(const std::string& folder);
/// Throws UsageError if resolved options that name a run to be replayed are not of such a run.
void expect_replay(const TrainOptions& options);

}  // namespace crossbow
