#include "sync/gossip.h"

#include "core/error.h"

namespace crossbow {

void settle_gossip(AsyncOptions& options) {
  if (!options.gossip_probability) settle<int64_t>(options.sync.period, 1);
}

GossipTimes::GossipTimes(const AsyncOptions& o)
    : period_(o.sync.period), probability_(o.gossip_probability) {
  if (o.sync.period && o.gossip_probability) {
    fail_usage(
        "`sync-period` and `gossip-probability` both say when nodes gossip; leave one of them out");
  }
}

}  // namespace crossbow
