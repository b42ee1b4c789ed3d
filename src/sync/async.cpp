#include "sync/async.h"

#include <fmt/format.h>

#include <cmath>

#include "core/error.h"
#include "core/nearest.h"
#include "core/registry.h"
#include "sync/check_options.h"

namespace crossbow {
namespace {

Registry<AsyncEntry>& registry() {
  static Registry<AsyncEntry> entries("asynchronous algorithm");
  return entries;
}

}  // namespace

RegisterAsync::RegisterAsync(const AsyncEntry& entry) {
  registry().add(entry.name, entry);
}

std::vector<AsyncEntry> async_catalogue() {
  std::vector<AsyncEntry> entries;
  for (const auto& [name, entry] : registry()) entries.push_back(entry);
  return entries;
}

const AsyncEntry* find_async(std::string_view name) {
  return registry().find(name);
}

AsyncOptions settled_options(std::string_view name, AsyncOptions options) {
  const AsyncEntry* const entry = find_async(name);
  if (entry && entry->settle) entry->settle(options);
  return options;
}

int64_t whole_step_factor(double alpha) {
  if (alpha < 2 || alpha > 64 || alpha != std::floor(alpha)) {
    fail_usage("`alpha` {}: sizes of batches differ by a whole number from 2 to 64", alpha);
  }
  return static_cast<int64_t>(alpha);
}

std::unique_ptr<const AsyncAlgorithm> make_async(std::string_view name,
                                                 const AsyncOptions& options) {
  const AsyncEntry* const entry = find_async(name);
  if (!entry) {
    const auto names = registry().names();
    fail_usage("`sync` {}: there is no such asynchronous algorithm; known are {}{}", name,
               fmt::join(names, ", "), did_you_mean(name, names));
  }
  const SyncUses uses{.period = entry->uses.period, .alpha = entry->uses.alpha};
  check_options(name, options.sync, uses, entry->needs.momentum);
  const auto& probability = options.gossip_probability;
  if (probability && !entry->uses.gossip_probability) {
    fail_usage("`gossip-probability`: `sync` {} has no use for it; leave it out", name);
  }
  if (probability && !(*probability > 0 && *probability <= 1)) {
    fail_usage("`gossip-probability` {}: it must be above 0 and at most 1", *probability);
  }
  if (!options.merge.empty() && !entry->uses.merge) {
    fail_usage("`merge`: `sync` {} has no use for it; leave it out", name);
  }
  if (!options.merge.empty() && options.merge != "difference" && options.merge != "overwrite") {
    fail_usage("`merge` {}: this version knows difference and overwrite", options.merge);
  }
  return entry->make(settled_options(name, options));
}

int Peers::draw_peer() {
  const int other = static_cast<int>(draw() * (nodes() - 1));
  return other < node() ? other : other + 1;
}

}  // namespace crossbow
