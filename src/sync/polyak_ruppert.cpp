// Averaging over time and learners, Polyak & Juditsky 1992 and Ruppert 1988: z is the mean of all
// learners' weights over all exchanges so far, of which with η above 0 the later ones count for
// more (mean_over_time.h). η is 8 unless set; 0 is the mean of the whole run. Learners are also
// pulled towards z, w_j ← w_j + step_j − α(w_j − z), by 0.01 unless set, as weights of learners
// that never meet have no useful mean. A learner alone is not pulled.
#include "core/error.h"
#include "sync/mean_over_time.h"

namespace crossbow {
namespace {

class PolyakRuppert : public SyncAlgorithm {
 public:
  explicit PolyakRuppert(const SyncOptions& o)
      : period_(*o.period), alpha_(o.alpha.value_or(0)), eta_(*o.averaging_eta) {}

  Traits traits() const override {
    return {.timing = Timing::beside_step, .restarts = true, .lags = true};
  }
  int64_t period(bool, int64_t) const override { return period_; }
  double pull() const override { return alpha_; }
  void apply(const Exchange& x) const override { average_over_time(x, x.index + 1, eta_); }

 private:
  const int64_t period_;
  const double alpha_, eta_;
};

void settle_own(SyncOptions& o) {
  settle<int64_t>(o.period, 1);
  if (o.learners > 1) settle(o.alpha, 0.01);
  settle(o.averaging_eta, kAveragingEta);
}

std::unique_ptr<const SyncAlgorithm> make(const SyncOptions& o) {
  if (o.alpha.value_or(0) >= 2) {
    fail_usage("`alpha` {}: learners that are pulled by 2 or more drift apart from their mean",
               *o.alpha);
  }
  if (o.alpha.value_or(0) > 1 && *o.averaging_eta > 0) {
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
                                   settle_own,
                                   {},
                                   kUses}};

}  // namespace
}  // namespace crossbow
