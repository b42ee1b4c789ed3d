// What is checked of any algorithm's options before it is made.
#pragma once

#include <string_view>

#include "sync/sync.h"

namespace crossbow {

/// Throws UsageError for an option that is set and not used, for that reason.
void refuse_unused(const SyncOptions& options, const SyncUses& uses, std::string_view why);

/// Throws UsageError for an option that is set and not used, out of its range, or that contradicts
/// the algorithm.
void check_options(std::string_view name, const SyncOptions& options, const SyncUses& uses,
                   SolverNeeds::Momentum momentum);

}  // namespace crossbow
