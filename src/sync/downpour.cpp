// Downpour SGD, Dean et al., NIPS 2012: every τ steps, and before its first, a node adds to the
// server's model what its weights have changed by since then, and goes on from the sum:
//   z ← z + w − b;  w ← z;  b ← z
// where b is what it last got. One period serves for pushing and fetching. The server takes changes
// as they are, where the source's has AdaGrad.
#include "sync/async.h"

namespace crossbow {
namespace {

class Downpour : public AsyncAlgorithm {
 public:
  explicit Downpour(int64_t period) : period_(period) {}

  Traits traits() const override { return {.server = true, .own_buffer = true}; }
  void before_step(Peers& p) const override {
    if (p.steps() % period_ > 0) return;
    constexpr Terms kSum{.weights = 1, .own = -1, .other = 1};
    p.mix_server({.weights = kSum, .own = kSum, .other = kSum});
  }

 private:
  const int64_t period_;
};

const RegisterAsync kDownpour{{"downpour",
                               "nodes send a server their changes and take its model",
                               {.period = true},
                               [](const AsyncOptions& o) -> std::unique_ptr<const AsyncAlgorithm> {
                                 return std::make_unique<Downpour>(*o.sync.period);
                               },
                               [](AsyncOptions& o) { settle<int64_t>(o.sync.period, 1); },
                               {.rate_scaling = "none"}}};

}  // namespace
}  // namespace crossbow
