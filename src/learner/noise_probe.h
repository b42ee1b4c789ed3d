// Measures the gradient noise scale where learners wait for an exchange.
#pragma once

#include <memory>
#include <span>

#include "device/device.h"
#include "learner/noise_scale.h"
#include "sync/sync.h"

namespace crossbow {

/// Looks at the learners' gradients, or at decaying sums of them, every 31 steps or so, which costs
/// a hundredth of an exchange. A learner alone has but one: it is compared with the one of the
/// measurement before, every 251 steps. Chunks are the pieces of Central.
class NoiseProbe {
 public:
  /// Whether so many learners of a device leave what is looked at. Beside whole steps they do not
  /// stand still; one that leaves but its part of a shared gradient has nothing to be compared
  /// with.
  static bool can_measure(const SyncAlgorithm& sync, const Optimizer& optimizer, int learners);
  /// Null where it cannot.
  static std::unique_ptr<NoiseProbe> make(const SyncAlgorithm& sync, const Optimizer& optimizer,
                                          int learners, Device& device, int64_t chunks,
                                          size_t bytes);

  /// Whether to measure in the exchange of that index, of which there is one every `period` steps;
  /// counted from when the last learner joined, since its momentum then was 0.
  /// Prime numbers of steps, so that it is not always an epoch's last one, whose batch is short.
  bool due(int64_t index, int64_t period) const { return due(index, period, before() ? 251 : 31); }
  static bool due(int64_t index, int64_t period, int64_t steps);
  /// Of learner j's vector at `vectors[j]`: the chunk that begins there, at the byte `first` of the
  /// whole, of n elements. `scratch` has room for as many.
  void measure(const VectorMath& math, int64_t chunk, int64_t first,
               std::span<const void* const> vectors, int64_t n, void* scratch);
  /// After the last chunk of an exchange that was measured; `queue` has computed it.
  void close(Queue& queue, NoiseScale& scale);
  /// Waits for what was measured last.
  void collect(NoiseScale& scale);

  /// The vector of the measurement before, of a learner alone; else null.
  std::byte* before() const { return before_.data(); }

 private:
  /// `decay` as of NoiseScale::add.
  NoiseProbe(Device& device, int learners, double decay, int64_t chunks, size_t bytes);

  const int64_t vectors_;
  const double decay_;
  const std::unique_ptr<Event> made_;
  bool pending_ = false;
  Buffer before_;
  Buffer sums_, host_sums_;  // by chunk: the squared norm of each vector, and of their mean
};

}  // namespace crossbow
