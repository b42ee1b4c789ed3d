// Hogwild, Niu, Recht, Ré & Wright, NIPS 2011: all nodes read and change one set of weights, each
// element on its own, with no lock and no regard for the others' steps under way. Nodes have no
// momentum.
#include "sync/async.h"

namespace crossbow {
namespace {

class Hogwild : public AsyncAlgorithm {
 public:
  Traits traits() const override { return {.live = true}; }
};

const RegisterAsync kHogwild{{"hogwild",
                              "nodes change one model at once, without locks",
                              {},
                              [](const AsyncOptions&) -> std::unique_ptr<const AsyncAlgorithm> {
                                return std::make_unique<Hogwild>();
                              },
                              {},
                              {.momentum = SolverNeeds::Momentum::none, .rate_scaling = "none"}}};

}  // namespace
}  // namespace crossbow
