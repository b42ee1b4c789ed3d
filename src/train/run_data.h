// A run's data set, and what of the run must fit it.
#pragma once

#include <memory>
#include <vector>

#include "train/checkpoint.h"
#include "train/observer.h"
#include "train/run_config.h"

namespace crossbow {

/// A set as the net takes it: normalised as the checkpoint `from` says, if there is one that does;
/// else, if it is a set by name, as the net's recipe says; and, where it has sparse rows and the
/// net or the device takes none, with all numbers in its batches.
std::shared_ptr<const data::Dataset> for_net(const RunConfig& config,
                                             std::shared_ptr<const data::Dataset> dataset,
                                             const Checkpoint* from);

/// Notes what is unusual about it. Throws UsageError if the batch is larger than the training part,
/// and Error if the set is not that of `from`, which may be null.
std::shared_ptr<const data::Dataset> open_data(const RunConfig& config, const Checkpoint* from,
                                               Observer& observer);

/// With teams that have a batch for each learner; a run that goes on from `from` keeps its team.
RunConfig fitted(const RunConfig& config, const data::Dataset& dataset, const Checkpoint* from);

/// Refuses a border and mirroring of rows of numbers.
void expect_images_to_augment(const RunConfig& config, const data::Dataset& dataset);

/// Refuses changes that no run of so many batches an epoch can have written.
void expect_changes_fit(const std::vector<LearnerChange>& changes, const RunConfig& config,
                        int64_t batches);

/// Refuses learners without a batch, and an algorithm that would never exchange, which leaves the
/// model as it was.
void expect_work(const RunConfig& config, const TeamConfig& team, int64_t batches);

}  // namespace crossbow
