// sma whose exchange hides behind the next step: delayed averaging, Zhou et al., "DaSGD: Squeezing
// SGD Parallelization Performance in Distributed Training Using Delayed Averaging", 2020.
//   w̄ = mean_j w_j, beside the passes that compute g_j at w_j;  w_j ← w̄ + (the step that g_j makes)
// A learner's gradient is taken where its own last step led, not where the mean of all steps did.
// z is the mean of w̄ over time, as sma's, and a learner alone is sma's. The published sma hides its
// exchange too, but pulls towards a z that is an exchange older, which limits the rate.
#include "sync/mean_over_time.h"

namespace crossbow {
namespace {

class DelayedAveraging final : public SyncAlgorithm {
 public:
  explicit DelayedAveraging(const SyncOptions& o)
      : period_(*o.period), every_(exchanges_a_mean(period_)), eta_(*o.averaging_eta) {}

  Traits traits() const override {
    return {.timing = Timing::beside_passes, .restarts = true, .lags = true};
  }
  int64_t period(bool, int64_t) const override { return period_; }
  double pull() const override { return 1; }
  void apply(const Exchange& x) const override {
    if (x.index % every_ == 0) average_over_time(x, x.index / every_ + 1, eta_);
  }

 private:
  const int64_t period_, every_;
  const double eta_;
};

void settle_own(SyncOptions& o) {
  if (o.learners > 1) settle<int64_t>(o.period, 1);
  settle(o.averaging_eta, kAveragingEta);
}

std::unique_ptr<const SyncAlgorithm> make(const SyncOptions& o) {
  if (o.learners == 1) return make_sync("sma", o);
  return std::make_unique<DelayedAveraging>(o);
}

const SyncUses kUses{.period = true, .averaging_eta = true};
const RegisterSync kDelayed{{"sma-delayed",
                             "sma whose average takes effect a step later, for slow networks",
                             kUses,
                             make,
                             settle_own,
                             {},
                             kUses}};

}  // namespace
}  // namespace crossbow
