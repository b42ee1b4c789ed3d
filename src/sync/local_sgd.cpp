// Local SGD, Stich 2019: every τ steps all learners go on from the mean of their weights, which is
// z. Post-local SGD, Lin et al. 2020: every step until the rate's first drop (which is parallel
// SGD with momentum, for averaging weights and averaging gradients are then the same), every τ
// steps from there on. Learners keep their momentum.
#include <array>

#include "sync/sync.h"

namespace crossbow {
namespace {

class LocalSgd : public SyncAlgorithm {
 public:
  LocalSgd(int64_t before, int64_t after) : before_(before), after_(after) {}

  Traits traits() const override { return {}; }
  int64_t period(bool after_first_drop, int64_t) const override {
    return after_first_drop ? after_ : before_;
  }
  void apply(const Exchange& x) const override {
    constexpr std::array<double, 1> kWhole{1};
    const std::array<const void*, 1> mean{x.mean};
    x.math.combine(kWhole, mean, x.next_z, x.n);
    for (void* w : x.weights) x.math.combine(kWhole, mean, w, x.n);
  }

 private:
  const int64_t before_, after_;
};

void settle_own(SyncOptions& o) {
  settle<int64_t>(o.period, 8);
}

std::unique_ptr<const SyncAlgorithm> make(const SyncOptions& o, bool post) {
  return std::make_unique<LocalSgd>(post ? 1 : *o.period, *o.period);
}

const RegisterSync kLocal{{"local-sgd",
                           "learners go on from their mean every 8 steps",
                           {.period = true},
                           [](const SyncOptions& o) { return make(o, false); },
                           settle_own}};
const RegisterSync kPostLocal{{"post-local-sgd",
                               "as ssgd until the rate first drops, then as local-sgd",
                               {.period = true},
                               [](const SyncOptions& o) { return make(o, true); },
                               settle_own,
                               {.rate_drops = true}}};

}  // namespace
}  // namespace crossbow
