// When a run is to be saved within an epoch.
#pragma once

#include <chrono>
#include <limits>

namespace crossbow {

/// Any thread may ask; `restart` is for one alone.
class SaveTimer {
 public:
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  explicit SaveTimer(double minutes) : period_(minutes) {}

  /// The run has been saved.
  void restart() { saved_ = Clock::now(); }
  bool due() const { return Minutes(Clock::now() - saved_) >= period_; }

 private:
  using Clock = std::chrono::steady_clock;
  using Minutes = std::chrono::duration<double, std::ratio<60>>;

  const Minutes period_;
  Clock::time_point saved_ = Clock::now();
};

}  // namespace crossbow
