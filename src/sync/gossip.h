// When gossip takes place: after every τ-th step of a node, or after each with a probability.
#pragma once

#include "sync/async.h"

namespace crossbow {

/// After every step, unless the options say otherwise.
void settle_gossip(AsyncOptions& options);

class GossipTimes {
 public:
  /// Throws UsageError if the options say both.
  explicit GossipTimes(const AsyncOptions& options);

  /// After a step; draws if there is a probability.
  bool now(Peers& p) const {
    return probability_ ? p.draw() < *probability_ : p.steps() % *period_ == 0;
  }
  /// Grows by one from time to time: with a probability, from step to step.
  int64_t count(const Peers& p) const { return probability_ ? p.steps() : p.steps() / *period_; }

 private:
  const std::optional<int64_t> period_;  // one of both is set
  const std::optional<double> probability_;
};

}  // namespace crossbow
