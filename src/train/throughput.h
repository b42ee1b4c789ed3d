// How fast a run trains, measured while it does.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace crossbow {

/// Windows of time that are long enough to hold many steps, and for the moments between two looks
/// not to matter. One thread. Virtual, so that a test can say what is measured.
class Throughput {
 public:
  virtual ~Throughput() = default;

  /// The clock starts, at no batches.
  virtual void begin_segment();
  /// So many batches of the segment are done by now, by iterations of `iteration` batches. Returns
  /// the batches a second of a window that this ends.
  virtual std::optional<double> window(int64_t done, int64_t iteration);

 private:
  std::chrono::steady_clock::time_point mark_;  // up to which the window is accounted for
  int64_t marked_ = 0;                          // batches of the segment until then
  double seconds_ = 0;                          // of the window
  int64_t batches_ = 0;
};

}  // namespace crossbow
