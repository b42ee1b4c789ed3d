// Synchronous model averaging: over learners, after every step, and over time. Every τ steps
//   w̄ = mean_j w_j;  w_j ← w_j + α(w̄ − w_j)
// and z is the mean of w̄ over time (mean_over_time.h), where a w̄ in about four steps is enough, so
// that its upkeep costs little. A learner alone has z for the same reason: some 48 times an epoch,
// and not after every step. Learners that start each step from the mean, α = 1, learn like one with
// a batch k times as large. The gradient's noise, which at a constant rate keeps weights at a
// distance from the minimum, does not reach z. docs/learning.md compares it with sma as published.
#include <algorithm>
#include <array>

#include "core/error.h"
#include "sync/mean_over_time.h"

namespace crossbow {
namespace {

class ModelAveraging : public SyncAlgorithm {
 public:
  explicit ModelAveraging(const SyncOptions& o)
      : alone_(o.learners == 1),
        period_(o.period),
        every_(alone_ ? 1 : exchanges_a_mean(*o.period)),
        alpha_(o.alpha.value_or(1)),
        eta_(*o.averaging_eta) {}

  Traits traits() const override { return {.restarts = true, .lags = true}; }
  int64_t period(bool, int64_t epoch_steps) const override {
    constexpr int64_t kTimes = 48, kLongest = 256;
    return period_.value_or(std::clamp<int64_t>(epoch_steps / kTimes, 1, kLongest));
  }
  void apply(const Exchange& x) const override {
    if (x.index % every_ == 0) average_over_time(x, x.index / every_ + 1, eta_);
    if (alone_) return;
    for (void* w : x.weights) {
      const std::array<double, 2> factors{alpha_, 1 - alpha_};
      const std::array<const void*, 2> terms{x.mean, w};
      const size_t count = alpha_ == 1 ? 1 : 2;
      x.math.combine({factors.data(), count}, {terms.data(), count}, w, x.n);
    }
  }

 private:
  const bool alone_;
  const std::optional<int64_t> period_;  // open: some times an epoch
  const int64_t every_;
  const double alpha_, eta_;
};

void settle_own(SyncOptions& o) {
  if (o.learners > 1) settle<int64_t>(o.period, 1);
  if (o.learners > 1) settle(o.alpha, 1.0);
  settle(o.averaging_eta, kAveragingEta);
}

std::unique_ptr<const SyncAlgorithm> make(const SyncOptions& o) {
  if (o.alpha.value_or(1) >= 2) {
    fail_usage("`alpha` {}: learners that are moved by 2 or more drift apart from their mean",
               *o.alpha);
  }
  return std::make_unique<ModelAveraging>(o);
}

const RegisterSync kSma{{"sma",
                         "synchronous model averaging over learners, and over time",
                         {.period = true, .alpha = true, .averaging_eta = true},
                         make,
                         settle_own,
                         {},
                         SyncUses{.period = true, .averaging_eta = true}}};

}  // namespace
}  // namespace crossbow
