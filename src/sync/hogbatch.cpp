// CPU+GPU Hogbatch and Adaptive Hogbatch, Ma & Rusu, "Heterogeneous CPU+GPU Stochastic Gradient
// Descent Algorithms", 2020 (arXiv 2004.08771). Workers of unlike speed train one model: a live one
// changes it as Hogwild's threads do; one with a replica takes the model, makes a large step, and
// merges it.
//
// hogbatch keeps the size b of each worker's steps. adaptive-hogbatch balances the updates u that
// workers make: when a worker E asks for more rows,
//   u_E < u_F for all others F:  b_E ← max(b_E / α, least)    it lags, and updates more often
//   u_E > u_F for all others F:  b_E ← min(b_E · α, most)     it is ahead
//
// Deviations: a replica's step is added to the model (`merge` difference), where the published
// form, `overwrite`, loses what others have changed in between; and a step of b times as many rows
// has √b times the rate by default, not b times.
#include "sync/async.h"

namespace crossbow {
namespace {

class Hogbatch : public AsyncAlgorithm {
 public:
  explicit Hogbatch(const AsyncOptions& options) : overwrites_(options.merge == "overwrite") {}

  Traits traits() const override {
    return {.live = true, .unlike = true, .overwrites = overwrites_};
  }

 private:
  const bool overwrites_;
};

class AdaptiveHogbatch final : public Hogbatch {
 public:
  explicit AdaptiveHogbatch(const AsyncOptions& options)
      : Hogbatch(options), alpha_(whole_step_factor(*options.sync.alpha)) {}

  int64_t step_factor() const override { return alpha_; }
  int64_t next_size(int64_t size, const UpdateCounts& updates) const override {
    if (updates.own < updates.least_of_others) return size / alpha_;
    if (updates.own > updates.most_of_others) return size * alpha_;
    return size;
  }

 private:
  const int64_t alpha_;
};

constexpr SolverNeeds kNeeds{.momentum = SolverNeeds::Momentum::none, .rate_scaling = "sqrt"};

const RegisterAsync kHogbatch{{"hogbatch",
                               "unlike workers, of small and of large batches, change one model",
                               {.workers = true, .merge = true},
                               [](const AsyncOptions& o) -> std::unique_ptr<const AsyncAlgorithm> {
                                 return std::make_unique<Hogbatch>(o);
                               },
                               {},
                               kNeeds}};
const RegisterAsync kAdaptive{{"adaptive-hogbatch",
                               "hogbatch, with batches that balance the workers' updates",
                               {.alpha = true, .workers = true, .merge = true},
                               [](const AsyncOptions& o) -> std::unique_ptr<const AsyncAlgorithm> {
                                 return std::make_unique<AdaptiveHogbatch>(o);
                               },
                               [](AsyncOptions& o) { settle(o.sync.alpha, kStepFactor); },
                               kNeeds}};

}  // namespace
}  // namespace crossbow
