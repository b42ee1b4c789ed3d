// Synchronous model averaging as published, Koliousis et al., "Crossbow: Scaling Deep Learning with
// Small Batch Sizes on Multi-GPU Servers", VLDB 2019: elastic averaging (elastic.h) on every
// iteration, with α = 1/k, a momentum of the central model, 0.9, and a restart of all learners from
// z when the rate drops: here to half or less, as in all of the paper's schedules. The momentum is
// an option of its own, which the authors' program ties to the learners' momentum.
#include "sync/elastic.h"

namespace crossbow {
namespace {

double own_alpha(const SyncOptions& o) {
  return 1.0 / static_cast<double>(o.learners);
}

void settle_own(SyncOptions& o) {
  settle<int64_t>(o.period, 1);
  settle(o.alpha, own_alpha(o));
  settle(o.central_momentum, 0.9);
}

std::unique_ptr<const SyncAlgorithm> make(const SyncOptions& o) {
  return std::make_unique<ElasticAveraging>(ElasticAveraging::Settings{
      .learners = o.learners,
      .period = *o.period,
      .alpha = *o.alpha,
      .default_alpha = own_alpha(o),
      .momentum = *o.central_momentum,
      .restarts = true,
  });
}

const RegisterSync kSmaPaper{{"sma-paper",
                              "sma as published: a central model with momentum, alpha 1/k",
                              {.period = true, .alpha = true, .central_momentum = true},
                              make,
                              settle_own}};

}  // namespace
}  // namespace crossbow
