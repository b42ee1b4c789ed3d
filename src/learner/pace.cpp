#include "learner/pace.h"

#include <cmath>
#include <limits>

#include "core/rng.h"

namespace crossbow {
namespace {

double step_time(const Pace& pace, Rng rng) {
  switch (pace.times) {
    case Pace::Times::lognormal: {
      const auto z = static_cast<double>(rng.gaussian());
      return std::exp(pace.spread * z - pace.spread * pace.spread / 2);
    }
    case Pace::Times::uniform:
      return 1 + pace.spread * (2 * static_cast<double>(rng.uniform()) - 1);
    case Pace::Times::recorded:
      break;
  }
  return pace.recorded[rng.below(static_cast<uint32_t>(pace.recorded.size()))];
}

}  // namespace

double Pace::fails_at(int node) const {
  return entry(fails, node, std::numeric_limits<double>::infinity());
}

double Pace::duration(uint64_t seed, int node, int64_t step, int64_t rows) const {
  const Rng rng(seed, Purpose::pace, static_cast<uint32_t>(node), static_cast<uint64_t>(step));
  const double work = costly_rows > 0 ? 1 + static_cast<double>(rows) / costly_rows : 1;
  return work * slowness_of(node) * step_time(*this, rng);
}

}  // namespace crossbow
