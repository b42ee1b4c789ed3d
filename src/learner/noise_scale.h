// The gradient noise scale: how large a batch must be before a larger one teaches no more.
#pragma once

#include <cstdint>
#include <optional>

namespace crossbow {

/// φ = tr Σ / |G|², of the gradient G and an image's covariance Σ around it (McCandlish et al., "An
/// Empirical Model of Large-Batch Training", 2018), in images: in the mean of φ images' gradients
/// noise and signal are equally large. Both are estimated from n vectors, each the gradient of a
/// batch of its own: their scatter is n/(n − 1)·(mean |x|² − |mean x|²), and |mean x|² exceeds the
/// signal's square by 1/n of it. A plain value; both sums decay over the last 24 measurements.
struct NoiseScale {
  double noise = 0, signal = 0;  // smoothed squares, of a batch and in the gradient's units
  int64_t measurements = 0;

  /// `decay`: the vectors are sums of their batch's gradient and those before it, each of these
  /// `decay` times as much as the next: a momentum. It has 1/(1 − decay²) of the noise and
  /// 1/(1 − decay)² of the signal.
  void add(double mean_square, double square_of_mean, int64_t vectors, double decay);

  /// In images, where the batches had so many. Infinite where no signal can be told from the noise;
  /// nothing after too few measurements.
  std::optional<double> images(int64_t batch) const;
};

/// The share of k learners' images that one learner would need for the same progress: of batches of
/// b images, (φ + b) / (φ + k·b) (Qiao et al., "Pollux", OSDI 2021).
double efficiency(double noise_scale, int64_t batch, int64_t learners);

}  // namespace crossbow
