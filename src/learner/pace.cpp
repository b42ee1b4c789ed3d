#include "learner/pace.h"

#include <cmath>

#include "core/rng.h"

namespace crossbow {

double Pace::duration(uint64_t seed, int node, int64_t step, int64_t rows) const {
  Rng rng(seed, Purpose::pace, static_cast<uint32_t>(node), static_cast<uint64_t>(step));
  const auto z = static_cast<double>(rng.gaussian());
  const double work = costly_rows > 0 ? 1 + static_cast<double>(rows) / costly_rows : 1;
  return work * slowness_of(node) * std::exp(spread * z - spread * spread / 2);
}

}  // namespace crossbow
