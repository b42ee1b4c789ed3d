// Which options make sense together.
#pragma once

#include "train/options.h"

namespace crossbow {

/// Both take options with the recipe filled in, and throw UsageError for a value out of range, an
/// impossible combination, or what this version cannot do yet. First what teams are made from:
/// device, data, batch, learners and threads.
void validate_work(const TrainOptions& options);
/// Then the rest.
void validate_learning(const TrainOptions& options);

}  // namespace crossbow
