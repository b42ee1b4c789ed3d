// Which CPUs compute what.
#pragma once

#include <string>
#include <vector>

namespace crossbow {

struct DeviceKind;

/// The workers of each device: teams of threads, each of which runs one learner at a time. Devices
/// that are groups of cores have equal shares of the machine's. A plain value.
struct ThreadPlan {
  int devices = 1;
  int workers = 1;  // of each device
  int threads = 1;  // of each worker, or of the one with most
  /// By worker, those of a device in a row: the CPUs that its threads stay on. Empty where they may
  /// run anywhere: threads are tied down only where the run uses the whole machine, as two runs
  /// side by side would else share a core while others are idle.
  std::vector<std::vector<int>> cpus = {};
  std::vector<int> unlike = {};  // threads by worker, where they are not as many everywhere

  int all_workers() const { return devices * workers; }
  int threads_of(int worker) const {
    return unlike.empty() ? threads : unlike[static_cast<size_t>(worker)];
  }
  int all_threads() const;
  /// "2 workers of 1 thread, on CPUs 0 | 1".
  std::string text() const;
};

/// For `learners` on each device, `threads` each: no more workers than learners, no more threads
/// than cores unless one learner asks for more than its device has. `cores` are one CPU each, of
/// which `usable` may be busy at a time.
ThreadPlan plan_threads(int devices, int learners, int threads, const std::vector<int>& cores,
                        int usable);
/// Workers of one device with so many threads each, however many cores there are.
ThreadPlan plan_unlike_threads(const DeviceKind& kind, std::vector<int> threads);
/// For this machine's devices. One that computes by itself has a worker of one thread for each
/// learner.
ThreadPlan plan_threads(const DeviceKind& kind, int devices, int learners, int threads);

}  // namespace crossbow
