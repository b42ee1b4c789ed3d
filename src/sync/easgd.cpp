// Elastic averaging SGD and its momentum variant, synchronous form, Zhang, Choromanska & LeCun,
// "Deep learning with Elastic Averaging SGD", NIPS 2015: elastic averaging (elastic.h) with
// α = β/k, β = 0.9, and no momentum of the central model. EASGD's learners take plain steps,
// EAMSGD's have Nesterov's momentum. The paper's τ is 1 to 64; ours is 1 unless set.
#include "sync/elastic.h"

namespace crossbow {
namespace {

std::unique_ptr<const SyncAlgorithm> elastic(std::string_view name, const SyncOptions& o) {
  constexpr double kBeta = 0.9;
  refuse(o.central_momentum.has_value(), "central-momentum", name);
  refuse(o.averaging_eta.has_value(), "averaging-eta", name);
  const double alpha = kBeta / static_cast<double>(o.learners);
  return std::make_unique<ElasticAveraging>(ElasticAveraging::Settings{
      .learners = o.learners,
      .period = o.period.value_or(1),
      .alpha = o.alpha.value_or(alpha),
      .default_alpha = alpha,
      .momentum = 0,
      .restarts = false,
  });
}

const RegisterSync kEasgd{{"easgd",
                           "elastic averaging of learners without momentum",
                           [](const SyncOptions& o) { return elastic("easgd", o); },
                           {.momentum = SolverNeeds::Momentum::none}}};
const RegisterSync kEamsgd{{"eamsgd",
                            "elastic averaging of learners with Nesterov's momentum",
                            [](const SyncOptions& o) { return elastic("eamsgd", o); },
                            {.momentum = SolverNeeds::Momentum::nesterov}}};

}  // namespace
}  // namespace crossbow
