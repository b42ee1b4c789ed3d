// Averaging over time and learners, Polyak & Juditsky 1992 and Ruppert 1988: z is the mean of all
// learners' weights over all exchanges i so far, from 0. With η above 0 the later ones count for
// more, by polynomial decay, Shamir & Zhang, "Stochastic Gradient Descent for Non-smooth
// Optimization", ICML 2013: z reaches back over about a share 1/(η + 1) of the run so far.
//   z' = z + (η + 1)/(i + 1 + η)·(mean_j w_j − z)
// η is 8 unless set; 0 is the mean of the whole run. Learners are also pulled towards z,
// w_j ← w_j + step_j − α(w_j − z), by 0.01 unless set, as weights of learners that never meet have
// no useful mean. A learner alone is not pulled.
#include <array>

#include "core/error.h"
#include "sync/sync.h"

namespace crossbow {
namespace {

constexpr double kAlpha = 0.01, kEta = 8;

class PolyakRuppert : public SyncAlgorithm {
 public:
  explicit PolyakRuppert(const SyncOptions& o)
      : period_(o.period.value_or(1)),
        alpha_(o.alpha.value_or(o.learners == 1 ? 0 : kAlpha)),
        eta_(o.averaging_eta.value_or(kEta)) {}

  Traits traits() const override { return {.overlaps = true, .restarts = true, .lags = true}; }
  int64_t period(bool, int64_t) const override { return period_; }
  double pull() const override { return alpha_; }
  void apply(const Exchange& x) const override {
    const double share = (eta_ + 1) / (static_cast<double>(x.index + 1) + eta_);
    const std::array<double, 2> factors{share, 1 - share};
    const std::array<const void*, 2> terms{x.mean, x.z};
    x.math.combine(factors, terms, x.next_z, x.n);
  }

 private:
  const int64_t period_;
  const double alpha_, eta_;
};

std::unique_ptr<const SyncAlgorithm> make(const SyncOptions& o) {
  if (o.alpha.value_or(0) >= 2) {
    fail_usage("`alpha` {}: learners that are pulled by 2 or more drift apart from their mean",
               *o.alpha);
  }
  if (o.alpha.value_or(0) > 1 && o.averaging_eta.value_or(kEta) > 0) {
    fail_usage(
        "`alpha` {}: with `averaging-eta` the mean keeps moving towards the learners, and "
        "with a pull above 1 they would overshoot each other",
        *o.alpha);
  }
  return std::make_unique<PolyakRuppert>(o);
}

constexpr SyncUses kUses{.period = true, .alpha = true, .averaging_eta = true};

const RegisterSync kPolyakRuppert{{"polyak-ruppert",
                                   "the central model is the mean over time and learners",
                                   kUses,
                                   make,
                                   {},
                                   kUses}};

}  // namespace
}  // namespace crossbow
