#include "learner/noise_probe.h"

#include <algorithm>
#include <array>
#include <utility>

namespace crossbow {

NoiseProbe::NoiseProbe(Device& device, int learners, double decay, int64_t chunks, size_t bytes)
    : vectors_(std::max(2, learners)), decay_(decay), made_(device.make_event()) {
  if (learners == 1) before_ = device.allocate_zeroed(bytes);
  const auto size = static_cast<size_t>(chunks * (vectors_ + 1)) * sizeof(double);
  sums_ = device.allocate(size);
  host_sums_ = device.allocate_pinned(size);
}

bool NoiseProbe::can_measure(const SyncAlgorithm& sync, const Optimizer& optimizer, int learners) {
  const SyncAlgorithm::Traits traits = sync.traits();
  if (traits.timing == SyncAlgorithm::Timing::beside_step) return false;
  return traits.averages_gradients ? learners > 1 : optimizer.gradient_decay > 0;
}

std::unique_ptr<NoiseProbe> NoiseProbe::make(const SyncAlgorithm& sync, const Optimizer& optimizer,
                                             int learners, Device& device, int64_t chunks,
                                             size_t bytes) {
  if (!can_measure(sync, optimizer, learners)) return nullptr;
  const double decay = sync.traits().averages_gradients ? 0 : optimizer.gradient_decay;
  return std::unique_ptr<NoiseProbe>(new NoiseProbe(device, learners, decay, chunks, bytes));
}

bool NoiseProbe::due(int64_t index, int64_t period, int64_t steps) {
  const int64_t every = (steps + period - 1) / period;
  return index % every == every - 1;
}

void NoiseProbe::measure(const VectorMath& math, int64_t chunk, int64_t first,
                         std::span<const void* const> vectors, int64_t n, void* scratch) {
  double* const sums = sums_.as<double>() + chunk * (vectors_ + 1);
  const double share = 1 / static_cast<double>(vectors_);
  std::array<const void*, 2> pair{vectors[0], nullptr};
  if (before()) {
    pair[1] = before() + first;
    vectors = pair;
  }
  const void* sum = nullptr;
  for (size_t j = 0; j < vectors.size(); ++j) {
    math.squared_norm(vectors[j], n, sums + j);
    const std::array<double, 2> factors{share, 1};
    const std::array<const void*, 2> terms{vectors[j], sum};
    const size_t count = sum ? 2 : 1;
    math.combine({factors.data(), count}, {terms.data(), count}, scratch, n);
    sum = scratch;
  }
  math.squared_norm(scratch, n, sums + vectors_);
  if (before()) math.combine(std::array{1.0}, {vectors.data(), 1}, before() + first, n);
}

void NoiseProbe::close(Queue& queue, NoiseScale& scale) {
  collect(scale);
  queue.copy(host_sums_.data(), sums_.data(), sums_.size());
  queue.mark(*made_);
  pending_ = true;
}

void NoiseProbe::collect(NoiseScale& scale) {
  if (!std::exchange(pending_, false)) return;
  made_->finish();
  const std::span all(host_sums_.as<double>(), host_sums_.size() / sizeof(double));
  double squares = 0, square_of_mean = 0, last = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    const auto place = static_cast<int64_t>(i) % (vectors_ + 1);
    (place < vectors_ ? squares : square_of_mean) += all[i];
    if (place == vectors_ - 1) last += all[i];
  }
  const bool first_of_a_learner_alone = before() && last == 0;
  if (first_of_a_learner_alone) return;
  scale.add(squares / static_cast<double>(vectors_), square_of_mean, vectors_, decay_);
}

}  // namespace crossbow
