// What the algorithms share that pull learners and a central model towards each other.
#pragma once

#include "sync/sync.h"

namespace crossbow {

/// With k learners, on every τ-th iteration and with the weights before its step:
///   w_j ← w_j + step_j − α(w_j − z)
///   z'  = z + α Σ_j (w_j − z) + m(z − z_before)
class ElasticAveraging : public SyncAlgorithm {
 public:
  struct Settings {
    int64_t learners, period;
    double alpha, default_alpha, momentum;  // α, what it is unless set, m
    bool restarts;
  };

  /// Throws UsageError if α is beyond the bound of stability, below.
  explicit ElasticAveraging(const Settings& settings);

  Traits traits() const override {
    return {.timing = Timing::beside_step, .restarts = settings_.restarts};
  }
  int64_t period(bool, int64_t) const override { return settings_.period; }
  double pull() const override { return settings_.alpha; }
  void apply(const Exchange& x) const override;

  /// The gap between the learners' mean and z shrinks if and only if α is below this: without
  /// gradients it and the last step of z change by [[1 − α − αk, −m], [αk, m]].
  static double stability_bound(int64_t learners, double momentum) {
    return 2 * (1 + momentum) / (1 + static_cast<double>(learners) + momentum);
  }

 private:
  const Settings settings_;
};

}  // namespace crossbow
