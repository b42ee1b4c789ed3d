// Parallel synchronous SGD: one step of the optimizer with the mean of all learners' gradients,
// each weighted by the rows of its batch, so that k learners of batch b are one of batch k·b. All
// learners share the weights, which are z.
#include "sync/sync.h"

namespace crossbow {
namespace {

class SynchronousSgd : public SyncAlgorithm {
 public:
  Traits traits() const override { return {.averages_gradients = true}; }
  int64_t period(bool, int64_t) const override { return 1; }
  void apply(const Exchange& x) const override {
    x.math.update(*x.optimizer->rule, x.optimizer->at(x.lr),
                  {x.z, x.mean, x.slots, nullptr, x.next_z, x.gradient_scale, x.decay}, x.n);
  }
};

const RegisterSync kSsgd{{"ssgd",
                          "one step with the mean gradient of all learners",
                          {},
                          [](const SyncOptions&) -> std::unique_ptr<const SyncAlgorithm> {
                            return std::make_unique<SynchronousSgd>();
                          }}};

}  // namespace
}  // namespace crossbow
