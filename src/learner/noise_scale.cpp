#include "learner/noise_scale.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace crossbow {

void NoiseScale::add(double mean_square, double square_of_mean, int64_t vectors, double decay) {
  constexpr int64_t kMemory = 24;
  const auto n = static_cast<double>(vectors);
  const double scatter = n / (n - 1) * (mean_square - square_of_mean);
  const double excess = square_of_mean - scatter / n;
  measurements = std::min(measurements + 1, kMemory);
  const double share = 1 / static_cast<double>(measurements);
  noise += share * (scatter * (1 - decay * decay) - noise);
  signal += share * (excess * (1 - decay) * (1 - decay) - signal);
}

std::optional<double> NoiseScale::images(int64_t batch) const {
  constexpr int64_t kLeast = 4;
  if (measurements < kLeast) return {};
  if (signal <= 0) return std::numeric_limits<double>::infinity();
  return static_cast<double>(batch) * noise / signal;
}

double efficiency(double noise_scale, int64_t batch, int64_t learners) {
  if (std::isinf(noise_scale)) return 1;
  const auto b = static_cast<double>(batch);
  return (noise_scale + b) / (noise_scale + static_cast<double>(learners) * b);
}

}  // namespace crossbow
