// An asynchronous device on the host, for tests: it proves that nothing is used before it is there,
// on machines without a GPU. Registered as "late", with the CPU's kernels, "late-ref", with the
// reference's, and "late-gpu", with a GPU's, run by fibres.
#pragma once

#include <cstdint>
#include <limits>

namespace crossbow::testing {

/// For all late devices; to be changed while none has a queue. Their memory lies at addresses that
/// the host cannot read, and is filled with NaN when it is handed out and when it is given back.
struct LateOptions {
  /// Each queue has a thread. `last_moment`: work is done when somebody waits for it, no sooner;
  /// `random`: as soon as its turn comes, after a random delay.
  enum class Pace { last_moment, random } pace = Pace::last_moment;
  uint64_t seed = 1;  // of the delays
  int longest_delay_us = 50;
  int64_t memory = std::numeric_limits<int64_t>::max();  // bytes, of each device
  int64_t failing_work = -1;  // the n-th piece of work of all queues, from 0, throws Error
  bool lost = false;          // as does then all that is asked of its device
};

/// Sets them while it lives.
class WithLateOptions {
 public:
  explicit WithLateOptions(const LateOptions& options);
  ~WithLateOptions();
  WithLateOptions(const WithLateOptions&) = delete;
};

/// Pieces of work done since the options were set.
int64_t late_work_done();

}  // namespace crossbow::testing
