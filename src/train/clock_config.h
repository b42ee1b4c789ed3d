// What a run's options say of the virtual clock: how long steps and messages take.
#pragma once

#include "learner/pace.h"
#include "sync/async.h"
#include "train/options.h"

namespace crossbow {

/// Whether time is virtual: of nodes it decides whose turn it is; of learners that wait for each
/// other it is told how long they would take.
bool is_virtual(const TrainOptions& options);
/// The name of a file of recorded times, so that a run goes on from any folder.
void make_step_times_absolute(TrainOptions& options);
/// Of valid options. Throws UsageError if a file of recorded times cannot be read.
Pace pace_of(const TrainOptions& options);
/// In seconds, as `fail` has it, of a node that is to fail.
double failure_of(const TrainOptions& options, int node);

// These throw UsageError naming the option that makes no sense.
void validate_clock(const TrainOptions& options);
/// With the number of learners that there are; some of those that wait for each other may have
/// failed.
void validate_learners_of_clock(const TrainOptions& options, int learners);
/// With the nodes' algorithm.
void validate_network(const TrainOptions& options, const AsyncAlgorithm& algorithm);

}  // namespace crossbow
