// When learners and exchanges wait for each other, where all learners take the same steps: the
// protocol of synchronous algorithms.
#pragma once

#include <cstdint>

#include "sync/sync.h"

namespace crossbow {

/// Every τ-th iteration has an exchange, in which all learners take part, at one of three times
/// (SyncAlgorithm::Timing). Beside a step, the step's update waits for the exchange before; beside
/// its passes for the exchange itself; and after a step the next one waits for it.
///
/// Iterations and exchanges are those of a segment, from 0; between segments one thread changes it.
class Lockstep {
 public:
  using Timing = SyncAlgorithm::Timing;

  explicit Lockstep(Timing timing) : timing_(timing) {}

  /// Whether z and the weights have two sides, as exchanges read the one while steps write the
  /// other.
  bool two_sides() const { return timing_ == Timing::beside_step; }
  /// Whether an exchange's mean is what steps are pulled towards, and must outlive it.
  bool pulls_to_mean() const { return timing_ == Timing::beside_passes; }
  int64_t exchanges() const { return exchanges_; }   // as EnginePlace counts them
  int64_t since_exchange() const { return since_; }  // steps since the last one
  int64_t joined() const { return joined_; }         // as EnginePlace has it
  void restore(int64_t exchanges, int64_t since_exchange, int64_t joined) {
    exchanges_ = exchanges;
    since_ = since_exchange;
    joined_ = joined;
  }

  void start(int64_t period) { period_ = period; }
  int64_t period() const { return period_; }
  /// Ends a segment of that many iterations, all of whose exchanges are complete.
  void finish(int64_t iterations) {
    exchanges_ += exchanges_before(iterations);
    since_ = (since_ + iterations) % period_;
  }

  /// Whether iteration i has an exchange, and how many the iterations before it.
  bool exchanges_at(int64_t i) const { return (since_ + i + 1) % period_ == 0; }
  int64_t exchanges_before(int64_t i) const { return (since_ + i) / period_; }
  int64_t iteration_of(int64_t exchange) const { return (exchange + 1) * period_ - since_ - 1; }

  /// Whether exchanges must be complete before the step of iteration i begins, or before it changes
  /// weights; and how many that are.
  bool waits_to_begin() const { return timing_ == Timing::after_step; }
  bool waits_to_update(int64_t i) const { return !waits_to_begin() && exchanges_at(i); }
  int64_t needed_to_begin(int64_t i) const { return waits_to_begin() ? exchanges_before(i) : 0; }
  int64_t needed_to_update(int64_t i) const {
    return waits_to_update(i) ? exchanges_before(two_sides() ? i : i + 1) : 0;
  }
  /// Iterations that all learners must have taken before the exchange begins.
  int64_t needed_to_exchange(int64_t exchange) const {
    return iteration_of(exchange) + (waits_to_begin() ? 1 : 0);
  }

 private:
  const Timing timing_;
  int64_t exchanges_ = 0, since_ = 0, joined_ = 0, period_ = 1;
};

}  // namespace crossbow
