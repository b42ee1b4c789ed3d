// A central model that is the mean over time of the learners' means, by polynomial decay: Shamir &
// Zhang, "Stochastic Gradient Descent for Non-smooth Optimization", ICML 2013.
#pragma once

#include <algorithm>
#include <array>

#include "sync/sync.h"

namespace crossbow {

inline constexpr double kAveragingEta = 8;  // unless set
/// Of exchanges so many steps apart, one in how many z takes: with one after every step, each
/// fourth is enough.
constexpr int64_t exchanges_a_mean(int64_t period) {
  return std::max<int64_t>(1, 4 / period);
}

/// z' = z + (η + 1)/(n + η)·(w̄ − z) with the n-th mean, counted from 1: z reaches back over about a
/// share 1/(η + 1) of them.
inline void average_over_time(const Exchange& x, int64_t n, double eta) {
  const double share = (eta + 1) / (static_cast<double>(n) + eta);
  const std::array<double, 2> factors{share, 1 - share};
  const std::array<const void*, 2> terms{x.mean, x.z};
  x.math.combine(factors, terms, x.next_z, x.n);
}

}  // namespace crossbow
