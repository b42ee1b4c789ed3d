// What a run's records come to.
#pragma once

#include <vector>

#include "train/run_config.h"
#include "train/train.h"

namespace crossbow {

/// All of a result that its configuration, its epochs and its place tell; so many samples have been
/// trained on.
TrainResult result_of(const RunConfig& config, const std::vector<EpochRecord>& history,
                      const Position& position, int64_t samples_seen);

}  // namespace crossbow
