// Gossiping SGD that pushes, Jin, Yuan, Iandola & Keutzer 2016: after a step a node sends its
// weights to a random peer; before a step it goes to the mean of its own and all that have come:
//   w ← (w + Σ received)/(1 + number received)
#include "sync/gossip.h"

namespace crossbow {
namespace {

class GossipPush : public AsyncAlgorithm {
 public:
  explicit GossipPush(const AsyncOptions& o) : times_(o) {}

  Traits traits() const override { return {.inbox = true}; }
  void before_step(Peers& p) const override {
    const Peers::Inbox in = p.inbox();
    if (in.messages == 0) return;
    const double share = 1 / static_cast<double>(1 + in.messages);
    p.take_inbox({.weights = {.weights = share, .other = share}});
  }
  void after_step(Peers& p) const override {
    if (times_.now(p)) p.post(p.draw_peer(), {.weights = 1}, 1);
  }

 private:
  const GossipTimes times_;
};

const RegisterAsync kPush{{"gossip-push",
                           "nodes send a random peer their weights, for its mean",
                           {.period = true, .gossip_probability = true},
                           [](const AsyncOptions& o) -> std::unique_ptr<const AsyncAlgorithm> {
                             return std::make_unique<GossipPush>(o);
                           },
                           settle_gossip}};

}  // namespace
}  // namespace crossbow
