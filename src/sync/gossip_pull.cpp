// Gossiping SGD that pulls, Jin, Yuan, Iandola & Keutzer 2016: after a step a node goes to the mean
// of its weights and those of a random peer j, who takes no notice:
//   w ← (w + w_j)/2
#include "sync/gossip.h"

namespace crossbow {
namespace {

class GossipPull : public AsyncAlgorithm {
 public:
  explicit GossipPull(const AsyncOptions& o) : times_(o) {}

  Traits traits() const override { return {}; }
  void after_step(Peers& p) const override {
    if (!times_.now(p)) return;
    p.mix_peer(p.draw_peer(), {.weights = {.weights = 0.5, .other = 0.5}});
  }

 private:
  const GossipTimes times_;
};

const RegisterAsync kPull{{"gossip-pull",
                           "nodes go to the mean with a random peer's weights",
                           {.period = true, .gossip_probability = true},
                           [](const AsyncOptions& o) -> std::unique_ptr<const AsyncAlgorithm> {
                             return std::make_unique<GossipPull>(o);
                           },
                           settle_gossip}};

}  // namespace
}  // namespace crossbow
