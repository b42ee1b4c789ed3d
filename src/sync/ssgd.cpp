// Parallel synchronous SGD: one step of SGD with the mean of all learners' gradients, each weighted
// by the rows of its batch, so that k learners of batch b are one of batch k·b. All learners share
// the weights, which are z.
#include "sync/sync.h"

namespace crossbow {
namespace {

class SynchronousSgd : public SyncAlgorithm {
 public:
  explicit SynchronousSgd(const SyncOptions& o) : options_(o) {}

  Traits traits() const override {
    return {.averages_gradients = true, .state_buffers = options_.momentum > 0 ? 1 : 0};
  }
  int64_t period(bool) const override { return 1; }
  void apply(const Exchange& x) const override {
    const SgdStep step{x.lr, options_.momentum, options_.weight_decay, options_.nesterov};
    void* const velocity = options_.momentum > 0 ? x.state[0] : nullptr;
    x.math.sgd_step(step, {x.z, x.mean, velocity, nullptr, x.next_z, x.gradient_scale}, x.n);
  }

 private:
  const SyncOptions options_;
};

std::unique_ptr<const SyncAlgorithm> make(const SyncOptions& o) {
  return std::make_unique<SynchronousSgd>(o);
}

const RegisterSync kSsgd{{"ssgd", "one step with the mean gradient of all learners", {}, make}};

}  // namespace
}  // namespace crossbow
