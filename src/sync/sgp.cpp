// Stochastic gradient push with overlap, Assran, Loizou, Ballas & Rabbat, ICML 2019: node i's
// biased weights x and their mass m, at first 1, are halved after a step, and one half goes to the
// peer i + 2^(t mod L), L = floor(log2(n − 1)) + 1; before a step the node adds what has come. A
// step is taken at w = x/m and changes x, so w by its m-th part:
//   w ← w + Δ/max(1, m);  send (m·w/2, m/2);  m ← m/2;  …  w ← (m·w + Σ)/(m + Σ masses)
// The sums of all x and of all m, with messages under way, change by steps only.
//
// In the source x changes by Δ also where m < 1. There nodes wait for messages that are too late. A
// node that does not wait halves its mass with each step until a slow peer sends some back, and Δ/m
// then makes it diverge. So where m < 1 the step counts for m of one. And where next to nothing is
// left it sends no more: several nodes that others do not answer for long would halve it until 1/m
// is no f32.
#include <algorithm>

#include "sync/gossip.h"

namespace crossbow {
namespace {

class StochasticGradientPush : public AsyncAlgorithm {
 public:
  explicit StochasticGradientPush(const AsyncOptions& o) : times_(o) {}

  Traits traits() const override { return {.inbox = true}; }
  double rate_factor(double mass) const override { return 1 / std::max(1.0, mass); }
  void before_step(Peers& p) const override {
    const Peers::Inbox in = p.inbox();
    if (in.messages == 0) return;
    const double sum = p.mass() + in.mass;
    p.take_inbox({.weights = {.weights = p.mass() / sum, .other = 1 / sum}});
    p.set_mass(sum);
  }
  void after_step(Peers& p) const override {
    if (!times_.now(p) || p.mass() < kLeastMass) return;
    const double half = p.mass() / 2;
    p.post(target(p, times_.count(p)), {.weights = half}, half);
    p.set_mass(half);
  }

 private:
  static constexpr double kLeastMass = 0x1p-20;  // to be halved

  static int target(const Peers& p, int64_t time) {
    int hops = 1;
    while ((1 << hops) <= p.nodes() - 1) ++hops;
    const int hop = 1 << (time % hops);
    return (p.node() + hop) % p.nodes();
  }

  const GossipTimes times_;
};

const RegisterAsync kSgp{{"sgp",
                          "nodes send half of their weights along an exponential graph",
                          {.period = true, .gossip_probability = true},
                          [](const AsyncOptions& o) -> std::unique_ptr<const AsyncAlgorithm> {
                            return std::make_unique<StochasticGradientPush>(o);
                          },
                          settle_gossip}};

}  // namespace
}  // namespace crossbow
