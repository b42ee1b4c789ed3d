// What the ranks of a cluster hand each other for a run, beside sums, and what a loss leaves.
#pragma once

#include <optional>

#include "train/checkpoint.h"

namespace crossbow {

/// Adds to rank 0's checkpoint copies of what the others' checkpoints have of their learners, so
/// many each, and of central buffers that rank 0 does not have. All ranks call it.
void gather_learners(Checkpoint& checkpoint, int learners);

/// By rank what each has passed, on rank 0; nothing elsewhere. All ranks call it.
std::vector<std::vector<int32_t>> gathered_on_first(const std::vector<int32_t>& own);

/// After a loss, by all ranks, each with its own state or none: that of the one that is furthest,
/// with copies of this rank's own learners; nothing if there is none. Where it says how many ranks
/// it is of, it says 0: some learners may be missing. All ranks call it.
std::optional<Checkpoint> state_of_survivors(const Checkpoint* own);

/// Without what is a learner's own; those after it are numbered anew.
void drop_learner(Checkpoint& checkpoint, int64_t learner);

/// Throws Error, on all ranks alike, if they have other options, data, instruction sets or numbers
/// of learners, or go on from other places: names what differs, and on which hosts.
void expect_alike(const TrainOptions& options, const data::Dataset& dataset, int learners,
                  const Position* from);

/// The same, if what ranks have in common is not the same to the bit, or laid out in another way.
void expect_same_model(const ParameterLayout& layout, const Replica& model);

}  // namespace crossbow
