#include "sync/sync.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "core/nearest.h"
#include "core/registry.h"
#include "sync/async.h"
#include "sync/check_options.h"

namespace crossbow {
namespace {

Registry<SyncEntry>& registry() {
  static Registry<SyncEntry> entries("synchronisation algorithm");
  return entries;
}

}  // namespace

RegisterSync::RegisterSync(const SyncEntry& entry) {
  registry().add(entry.name, entry);
}

std::vector<SyncEntry> sync_catalogue() {
  std::vector<SyncEntry> entries;
  for (const auto& [name, entry] : registry()) entries.push_back(entry);
  return entries;
}

SolverNeeds sync_needs(std::string_view name) {
  if (const SyncEntry* const entry = registry().find(name)) return entry->needs;
  const AsyncEntry* const entry = find_async(name);
  return entry ? entry->needs : SolverNeeds{};
}

std::optional<SyncUses> sync_alone(std::string_view name) {
  const SyncEntry* const entry = registry().find(name);
  return entry ? entry->alone : std::nullopt;
}

SyncOptions settled_options(std::string_view name, SyncOptions options) {
  const SyncEntry* const entry = registry().find(name);
  if (entry && entry->settle) entry->settle(options);
  return options;
}

std::unique_ptr<const SyncAlgorithm> make_sync(std::string_view name, const SyncOptions& options) {
  const SyncEntry* const entry = registry().find(name);
  if (!entry) {
    std::vector<std::string_view> names = registry().names();
    const auto others = async_catalogue();
    for (const AsyncEntry& other : others) names.push_back(other.name);
    std::sort(names.begin(), names.end());
    fail_usage("`sync` {}: there is no such algorithm; known are {}{}", name,
               fmt::join(names, ", "), did_you_mean(name, names));
  }
  check_options(name, options, entry->uses, entry->needs.momentum);
  return entry->make(settled_options(name, options));
}

}  // namespace crossbow
