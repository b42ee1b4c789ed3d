#include "learner/pace.h"

#include <cmath>

#include "core/rng.h"

namespace crossbow {

double Pace::duration(uint64_t seed, int node, int64_t step) const {
  Rng rng(seed, Purpose::pace, static_cast<uint32_t>(node), static_cast<uint64_t>(step));
  const auto z = static_cast<double>(rng.gaussian());
  return slowness_of(node) * std::exp(spread * z - spread * spread / 2);
}

}  // namespace crossbow
