// Asynchronous decentralised parallel SGD, Lian, Zhang, Zhang & Liu, ICML 2018: after a step a node
// and a random peer j both go to their mean, at once, while the peer's step may be under way: the
// peer then adds its step to the mean, from a gradient at the weights before:
//   w, w_j ← (w + w_j)/2
// In the paper a node's own step comes after the mean, from the gradient before it. Here the step
// is in the mean, half of it on each side; the sum of both is the same.
#include "sync/gossip.h"

namespace crossbow {
namespace {

class AdPsgd : public AsyncAlgorithm {
 public:
  explicit AdPsgd(const AsyncOptions& o) : times_(o) {}

  Traits traits() const override { return {.pairs = true}; }
  void after_step(Peers& p) const override {
    if (!times_.now(p)) return;
    constexpr Terms kMean{.weights = 0.5, .other = 0.5};
    p.mix_peer(p.draw_peer(), {.weights = kMean, .other = kMean});
  }

 private:
  const GossipTimes times_;
};

const RegisterAsync kAdPsgd{{"ad-psgd",
                             "a node and a random peer go to their mean at once",
                             {.period = true, .gossip_probability = true},
                             [](const AsyncOptions& o) -> std::unique_ptr<const AsyncAlgorithm> {
                               return std::make_unique<AdPsgd>(o);
                             },
                             settle_gossip}};

}  // namespace
}  // namespace crossbow
