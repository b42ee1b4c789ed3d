// How the rate of one learner becomes that of several.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace crossbow {

/// What k learners multiply the rate of one by, as each of them takes k times fewer steps:
///   none    1
///   linear  k, Goyal et al. 2017: the mean of k gradients has k times less variance
///   sqrt    √k, for learners whose noise is not averaged away
///   adascale  k·efficiency, the gain of Johnson et al., "AdaScale SGD", ICML 2020, for the
///             noise of the mean gradient; looked at when an epoch begins, and 1 during the first
/// Unlike AdaScale's, the schedule and the run's end go by samples, not by the sum of gains.
double rate_factor(std::string_view scaling, int learners, std::optional<double> efficiency);

/// A factor of the rate that moves evenly from one value to another. A plain value; counts the
/// run's samples.
struct RateFactor {
  double from = 1, to = 1;
  int64_t start = 0, length = 0;

  double at(int64_t samples) const;
  /// As now until that sample; then on the way to `next`.
  RateFactor moving_to(double next, int64_t samples, int64_t length) const {
    return {at(samples), next, samples, length};
  }
};

/// Epochs that a move takes, whatever the run's: a run that is made longer makes its changes again.
inline constexpr double kRateMoveEpochs = 0.5;

}  // namespace crossbow
