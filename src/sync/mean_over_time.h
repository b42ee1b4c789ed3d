// A central model that is the mean over time of the learners' means, by polynomial decay: Shamir &
// Zhang, "Stochastic Gradient Descent for Non-smooth Optimization", ICML 2013.
#pragma once

#include <array>

#include "sync/sync.h"

namespace crossbow {

inline constexpr double kAveragingEta = 8;  // unless set
/// Where there is a mean after every step, each fourth is enough.
inline constexpr int64_t kMeansApart = 4;

/// z' = z + (η + 1)/(n + η)·(w̄ − z) with the n-th mean, counted from 1: z reaches back over about a
/// share 1/(η + 1) of them.
inline void average_over_time(const Exchange& x, int64_t n, double eta) {
  const double share = (eta + 1) / (static_cast<double>(n) + eta);
  const std::array<double, 2> factors{share, 1 - share};
  const std::array<const void*, 2> terms{x.mean, x.z};
  x.math.combine(factors, terms, x.next_z, x.n);
}

}  // namespace crossbow
