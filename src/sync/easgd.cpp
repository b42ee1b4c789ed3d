// Elastic averaging SGD and its momentum variant, synchronous form, Zhang, Choromanska & LeCun,
// "Deep learning with Elastic Averaging SGD", NIPS 2015: elastic averaging (elastic.h) with
// α = β/k, β = 0.9, and no momentum of the central model. EASGD's learners take plain steps,
// EAMSGD's have Nesterov's momentum. EASGD's rate, ten times as large for want of momentum,
// diverges where k learners multiply it by k. The paper's τ is 1 to 64; ours is 1 unless set. What
// EAMSGD pulls is the point where the gradient is taken, x + δv, as weights are in PyTorch's form
// of Nesterov's momentum; the paper pulls x.
#include "sync/elastic.h"

namespace crossbow {
namespace {

double own_alpha(const SyncOptions& o) {
  constexpr double kBeta = 0.9;
  return kBeta / static_cast<double>(o.learners);
}

void settle_own(SyncOptions& o) {
  settle<int64_t>(o.period, 1);
  settle(o.alpha, own_alpha(o));
}

std::unique_ptr<const SyncAlgorithm> make(const SyncOptions& o) {
  return std::make_unique<ElasticAveraging>(ElasticAveraging::Settings{
      .learners = o.learners,
      .period = *o.period,
      .alpha = *o.alpha,
      .default_alpha = own_alpha(o),
      .momentum = 0,
      .restarts = false,
  });
}

constexpr SyncUses kUses{.period = true, .alpha = true};

const RegisterSync kEasgd{{"easgd",
                           "elastic averaging of learners without momentum",
                           kUses,
                           make,
                           settle_own,
                           {.momentum = SolverNeeds::Momentum::none, .rate_scaling = "sqrt"}}};
const RegisterSync kEamsgd{{"eamsgd",
                            "elastic averaging of learners with Nesterov's momentum",
                            kUses,
                            make,
                            settle_own,
                            {.momentum = SolverNeeds::Momentum::nesterov}}};

}  // namespace
}  // namespace crossbow
