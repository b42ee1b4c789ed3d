#include "sync/check_options.h"

#include <fmt/format.h>

#include "core/error.h"
#include "sync/async.h"

namespace crossbow {
namespace {

void check_momentum(std::string_view name, const SyncOptions& o, SolverNeeds::Momentum needed) {
  using Momentum = SolverNeeds::Momentum;
  const bool nodes = find_async(name);
  const std::string_view with = nodes ? "async-eamsgd" : "eamsgd";
  const std::string_view without = nodes ? "async-easgd" : "easgd";
  if (needed == Momentum::none && o.momentum > 0) {
    fail_usage("`momentum` {}: the learners of {} have none; leave it out, or choose {}",
               o.momentum, name, with);
  }
  if (needed == Momentum::none && o.nesterov) {
    fail_usage("`nesterov`: the learners of {} have no momentum; leave it out, or choose {}", name,
               with);
  }
  if (needed == Momentum::nesterov && !(o.momentum > 0)) {
    fail_usage("`momentum` {}: the learners of {} have Nesterov's; leave it out, or choose {}",
               o.momentum, name, without);
  }
  if (needed == Momentum::nesterov && !o.nesterov) {
    fail_usage("`nesterov` false: the learners of {} have Nesterov's momentum; leave it out", name);
  }
}

}  // namespace

void refuse_unused(const SyncOptions& o, const SyncUses& uses, std::string_view why) {
  const auto refuse = [&](bool set, bool used, std::string_view option) {
    if (set && !used) fail_usage("`{}`: {}; leave it out", option, why);
  };
  refuse(o.period.has_value(), uses.period, "sync-period");
  refuse(o.alpha.has_value(), uses.alpha, "alpha");
  refuse(o.central_momentum.has_value(), uses.central_momentum, "central-momentum");
  refuse(o.averaging_eta.has_value(), uses.averaging_eta, "averaging-eta");
}

void check_options(std::string_view name, const SyncOptions& options, const SyncUses& uses,
                   SolverNeeds::Momentum momentum) {
  refuse_unused(options, uses, fmt::format("`sync` {} has no use for it", name));
  if (options.period && *options.period < 1) {
    fail_usage("`sync-period` {}: it must be at least 1", *options.period);
  }
  if (options.central_momentum &&
      !(*options.central_momentum >= 0 && *options.central_momentum < 1)) {
    fail_usage("`central-momentum` {}: it must be at least 0 and below 1",
               *options.central_momentum);
  }
  if (options.averaging_eta && !(*options.averaging_eta >= 0 && *options.averaging_eta <= 1e6)) {
    fail_usage("`averaging-eta` {}: it must be between 0 and a million", *options.averaging_eta);
  }
  if (options.alpha && !(*options.alpha > 0)) {
    fail_usage("`alpha` {}: it must be above 0", *options.alpha);
  }
  check_momentum(name, options, momentum);
}

}  // namespace crossbow
