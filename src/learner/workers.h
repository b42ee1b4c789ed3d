// Threads that run learners' steps, each one at a time: they compute, or give a device work.
#pragma once

#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "learner/thread_plan.h"

namespace crossbow {

class Device;

/// Used by one thread, which made it.
class Workers {
 public:
  /// For as many devices as the plan has. Throws as Device::expect_team does where the system or
  /// the environment forbids so many threads.
  Workers(const std::vector<Device*>& devices, const ThreadPlan& plan);
  /// Waits for what is running.
  ~Workers();
  Workers(const Workers&) = delete;

  int count() const { return static_cast<int>(threads_.size()); }

  /// Begins `job(worker)` on every worker. None may be running.
  void start(std::function<void(int)> job);
  /// Whether all have returned; waits for it at most that long. Rethrows the first exception that
  /// left a job.
  bool finished(std::chrono::milliseconds patience);
  /// start, and wait for the end.
  void run(std::function<void(int)> job);

 private:
  void work(int worker, Device& device, const std::vector<int>& cpus, int threads);
  void end();

  std::mutex mutex_;  // guards all below
  std::condition_variable started_, ended_;
  std::function<void(int)> job_;
  int64_t round_ = 0;
  int running_ = 0;
  std::exception_ptr error_;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace crossbow
