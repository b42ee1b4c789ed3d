// Elastic gossip, Pramod 2018: after a step a node and a random peer j are pulled towards each
// other. The peer moves when it takes its messages, before its next step, so the sum of all weights
// and messages stays what it is. With e_j = w_j + Σ messages that wait, where the peer is to go:
//   d = α(w − e_j);  w ← w − d;  e_j ← e_j + d
// α is 1/2 unless set: the mean of both.
//
// Pulls by w_j alone would add up while a slow peer does not take them: with α = 1/2 four of them
// throw it as far beyond the others' mean as it was before it, and the run diverges.
#include "core/error.h"
#include "sync/gossip.h"

namespace crossbow {
namespace {

class ElasticGossip : public AsyncAlgorithm {
 public:
  ElasticGossip(const AsyncOptions& o, double alpha) : times_(o), alpha_(alpha) {}

  Traits traits() const override { return {.inbox = true, .reads_inboxes = true}; }
  void before_step(Peers& p) const override {
    if (p.inbox().messages > 0) p.take_inbox({.weights = {.weights = 1, .other = 1}});
  }
  void after_step(Peers& p) const override {
    if (!times_.now(p)) return;
    const int peer = p.draw_peer();
    p.post(peer, {.weights = alpha_, .other = -alpha_}, 0);
    // From now on Terms::other is e_j + d = (1 − α)e_j + αw.
    const double rest = 1 - alpha_;
    p.mix_peer(peer, {.weights = {.weights = (rest - alpha_) / rest, .other = alpha_ / rest}});
  }

 private:
  const GossipTimes times_;
  const double alpha_;
};

void settle_own(AsyncOptions& o) {
  settle_gossip(o);
  settle(o.sync.alpha, 0.5);
}

std::unique_ptr<const AsyncAlgorithm> make(const AsyncOptions& o) {
  const double alpha = *o.sync.alpha;
  if (alpha >= 1) fail_usage("`alpha` {}: from 1 on two nodes overshoot each other", alpha);
  return std::make_unique<ElasticGossip>(o, alpha);
}

const RegisterAsync kElastic{{"elastic-gossip",
                              "a node and a random peer are pulled towards each other",
                              {.period = true, .alpha = true, .gossip_probability = true},
                              make,
                              settle_own}};

}  // namespace
}  // namespace crossbow
