// What a run's records come to.
#pragma once

#include <vector>

#include "train/train.h"

namespace crossbow {

/// All of a result that its options, its epochs and its place tell; so many samples have been
/// trained on.
TrainResult result_of(const TrainOptions& options, const std::vector<EpochRecord>& history,
                      const Position& position, int64_t samples_seen);

}  // namespace crossbow
