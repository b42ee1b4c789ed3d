// Elastic gossip, Pramod 2018: after a step a node and a random peer j are pulled towards each
// other, by what the peer has published. The peer moves when it takes its messages, before its next
// step, so the sum of all weights and messages stays what it is:
//   d = α(w − w_j);  w ← w − d;  w_j ← w_j + d
// α is 1/2 unless set: the mean of both.
#include "core/error.h"
#include "sync/gossip.h"

namespace crossbow {
namespace {

constexpr double kAlpha = 0.5;

class ElasticGossip : public AsyncAlgorithm {
 public:
  ElasticGossip(const AsyncOptions& o, double alpha) : times_(o), alpha_(alpha) {}

  Traits traits() const override { return {.inbox = true}; }
  void before_step(Peers& p) const override {
    if (p.inbox().messages > 0) p.take_inbox({.weights = {.weights = 1, .other = 1}});
  }
  void after_step(Peers& p) const override {
    if (!times_.now(p)) return;
    const int peer = p.draw_peer();
    p.post(peer, {.weights = alpha_, .other = -alpha_}, 0);
    p.mix_peer(peer, {.weights = {.weights = 1 - alpha_, .other = alpha_}});
  }

 private:
  const GossipTimes times_;
  const double alpha_;
};

std::unique_ptr<const AsyncAlgorithm> make(const AsyncOptions& o) {
  const double alpha = o.sync.alpha.value_or(kAlpha);
  if (alpha > 1) fail_usage("`alpha` {}: above 1 two nodes overshoot each other", alpha);
  return std::make_unique<ElasticGossip>(o, alpha);
}

const RegisterAsync kElastic{{"elastic-gossip",
                              "a node and a random peer are pulled towards each other",
                              {.period = true, .alpha = true, .gossip_probability = true},
                              make}};

}  // namespace
}  // namespace crossbow
