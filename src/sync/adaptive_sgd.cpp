// Adaptive SGD for devices of unlike speed, Ma, Rusu, Sim & Wu, "Adaptive Elastic Training for
// Sparse Deep Learning on Heterogeneous Multi-GPU Servers", 2021 (arXiv 2110.07029): each worker
// trains a replica of its own on the batches that it asks for. After every mega-batch all replicas
// go to their mean by the steps n that each has made:
//   w ← Σ p_i·w_i,   p_i = n_i / Σ n
// and a worker that has made more steps than others gets larger ones, else smaller ones.
//
// Deviations: sizes of steps differ by a factor, not by 32 rows, so a worker's changes only where
// the neighbouring size brings its steps nearer to the mean of the others'; and a step of b times
// as many rows has √b times the rate by default, not b times. Left out: the perturbation of p, and
// the momentum of the merged model.
#include <cmath>

#include "core/error.h"
#include "sync/async.h"

namespace crossbow {
namespace {

class AdaptiveSgd final : public AsyncAlgorithm {
 public:
  explicit AdaptiveSgd(const AsyncOptions& options)
      : round_steps_(*options.sync.period), factor_(whole_step_factor(*options.sync.alpha)) {
    constexpr int64_t kMost = 1'000'000;
    if (round_steps_ <= kMost) return;
    fail_usage("`sync-period` {}: it must be at most {}", round_steps_, kMost);
  }

  Traits traits() const override { return {.unlike = true, .merges = true}; }
  void after_step(Peers& p) const override { p.set_mass(p.mass() + 1); }
  int64_t round_steps() const override { return round_steps_; }
  int64_t step_factor() const override { return factor_; }
  int64_t next_size(int64_t size, const UpdateCounts& updates) const override {
    const double nearer = std::sqrt(static_cast<double>(factor_));
    if (updates.own > updates.mean_of_others * nearer) return size * factor_;
    if (updates.own * nearer < updates.mean_of_others) return size / factor_;
    return size;
  }

 private:
  const int64_t round_steps_, factor_;
};

const RegisterAsync kAdaptiveSgd{
    {"adaptive-sgd",
     "unlike workers' replicas go to their mean by steps made",
     {.period = true, .alpha = true, .workers = true},
     [](const AsyncOptions& o) -> std::unique_ptr<const AsyncAlgorithm> {
       return std::make_unique<AdaptiveSgd>(o);
     },
     [](AsyncOptions& o) {
       settle<int64_t>(o.sync.period, 16);
       settle(o.sync.alpha, kStepFactor);
     },
     {.momentum = SolverNeeds::Momentum::none, .rate_scaling = "sqrt"}}};

}  // namespace
}  // namespace crossbow
