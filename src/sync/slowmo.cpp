// SlowMo, Wang et al. 2020: local SGD whose mean is but a direction for an outer step with slow
// momentum. Every τ steps, at the learners' rate η,
//   u ← β u + (z − mean_j w_j)/η;  z ← z − α η u;  w_j ← z
// Where the schedule changes η within the τ steps, u takes them all as steps at the last η.
// β: --central-momentum, 0.7 unless set; α: --alpha, 1 unless set. Learners keep their momentum.
#include <array>

#include "sync/sync.h"

namespace crossbow {
namespace {

class SlowMo : public SyncAlgorithm {
 public:
  explicit SlowMo(const SyncOptions& o)
      : period_(*o.period), alpha_(*o.alpha), beta_(*o.central_momentum) {}

  Traits traits() const override { return {.state_buffers = 1}; }
  int64_t period(bool, int64_t) const override { return period_; }
  void apply(const Exchange& x) const override {
    void* const u = x.state[0];
    const std::array<const void*, 3> direction{u, x.z, x.mean};
    const double inverse = x.lr > 0 ? 1 / x.lr : 0;  // at the start of a warm-up nobody moves
    x.math.combine(std::array{beta_, inverse, -inverse}, direction, u, x.n);
    const std::array<const void*, 2> step{x.z, u};
    x.math.combine(std::array{1.0, -alpha_ * x.lr}, step, x.next_z, x.n);
    const std::array<const void*, 1> z{x.next_z};
    for (void* w : x.weights) x.math.combine(std::array{1.0}, z, w, x.n);
  }

 private:
  const int64_t period_;
  const double alpha_, beta_;
};

void settle_own(SyncOptions& o) {
  settle<int64_t>(o.period, 8);
  settle(o.alpha, 1.0);
  settle(o.central_momentum, 0.7);
}

constexpr SyncUses kUses{.period = true, .alpha = true, .central_momentum = true};

const RegisterSync kSlowMo{{"slowmo",
                            "local-sgd with slow momentum of the mean",
                            kUses,
                            [](const SyncOptions& o) -> std::unique_ptr<const SyncAlgorithm> {
                              return std::make_unique<SlowMo>(o);
                            },
                            settle_own,
                            {},
                            kUses}};

}  // namespace
}  // namespace crossbow
