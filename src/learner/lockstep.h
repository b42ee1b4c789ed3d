// When learners and exchanges wait for each other, where all learners take the same steps: the
// protocol of synchronous algorithms.
#pragma once

#include <cstdint>

namespace crossbow {

/// Every τ-th iteration has an exchange, in which all learners take part. One that overlaps takes
/// the weights before its iteration's step and runs beside that step, whose update waits for the
/// exchange before; one that does not takes what the step made, and the next step waits for it.
///
/// Iterations and exchanges are those of a segment, from 0; between segments one thread changes it.
class Lockstep {
 public:
  explicit Lockstep(bool overlaps) : overlaps_(overlaps) {}

  bool overlaps() const { return overlaps_; }
  int64_t exchanges() const { return exchanges_; }   // in the whole run
  int64_t since_exchange() const { return since_; }  // steps since the last one
  void restore(int64_t exchanges, int64_t since_exchange) {
    exchanges_ = exchanges;
    since_ = since_exchange;
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

  /// Whether all exchanges before must be complete before the step of iteration i begins, or before
  /// it changes weights; and how many that are.
  bool waits_to_begin() const { return !overlaps_; }
  bool waits_to_update(int64_t i) const { return overlaps_ && exchanges_at(i); }
  int64_t needed_to_begin(int64_t i) const { return waits_to_begin() ? exchanges_before(i) : 0; }
  int64_t needed_to_update(int64_t i) const { return waits_to_update(i) ? exchanges_before(i) : 0; }
  /// Iterations that all learners must have taken before the exchange begins.
  int64_t needed_to_exchange(int64_t exchange) const {
    return iteration_of(exchange) + (overlaps_ ? 0 : 1);
  }

 private:
  const bool overlaps_;
  int64_t exchanges_ = 0, since_ = 0, period_ = 1;
};

}  // namespace crossbow
