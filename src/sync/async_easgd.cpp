// Asynchronous elastic averaging, Zhang, Choromanska & LeCun, NIPS 2015: every τ steps, and before
// its first, a node and the server's model are pulled towards each other:
//   w ← w − α(w − z);  z ← z + α(w − z)
// α is 0.9/k unless set. EAMSGD's nodes have Nesterov's momentum, EASGD's have none.
#include "core/error.h"
#include "sync/async.h"

namespace crossbow {
namespace {

class AsyncElastic : public AsyncAlgorithm {
 public:
  AsyncElastic(int64_t period, double alpha) : period_(period), alpha_(alpha) {}

  Traits traits() const override { return {.server = true}; }
  void before_step(Peers& p) const override {
    if (p.steps() % period_ > 0) return;
    p.mix_server({.weights = {.weights = 1 - alpha_, .other = alpha_},
                  .other = {.weights = alpha_, .other = 1 - alpha_}});
  }

 private:
  const int64_t period_;
  const double alpha_;
};

void settle_own(AsyncOptions& o) {
  constexpr double kBeta = 0.9;
  settle<int64_t>(o.sync.period, 4);
  settle(o.sync.alpha, kBeta / static_cast<double>(o.sync.learners));
}

std::unique_ptr<const AsyncAlgorithm> make(const AsyncOptions& o) {
  const double alpha = *o.sync.alpha;
  if (alpha > 1)
    fail_usage("`alpha` {}: above 1 a node and the server overshoot each other", alpha);
  return std::make_unique<AsyncElastic>(*o.sync.period, alpha);
}

const RegisterAsync kEasgd{{"async-easgd",
                            "elastic averaging with a server, without waiting",
                            {.period = true, .alpha = true},
                            make,
                            settle_own,
                            {.momentum = SolverNeeds::Momentum::none, .rate_scaling = "sqrt"}}};
const RegisterAsync kEamsgd{
    {"async-eamsgd",
     "async-easgd of nodes with Nesterov's momentum",
     {.period = true, .alpha = true},
     make,
     settle_own,
     {.momentum = SolverNeeds::Momentum::nesterov, .rate_scaling = "sqrt"}}};

}  // namespace
}  // namespace crossbow
