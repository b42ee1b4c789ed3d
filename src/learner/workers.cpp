#include "learner/workers.h"

#include <sched.h>

#include <cassert>
#include <utility>

#include "core/threads.h"
#include "device/device.h"

namespace crossbow {
namespace {

/// The calling thread, and the team that it will make. Failing to is no error: it costs time only.
void stay_on(const std::vector<int>& cpus) {
  if (cpus.empty()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) CPU_SET(cpu, &set);
  sched_setaffinity(0, sizeof set, &set);
}

}  // namespace

Workers::Workers(const std::vector<Device*>& devices, const ThreadPlan& plan) {
  devices[0]->expect_team(plan.threads);
  expect_threads(plan.all_threads());
  try {
    for (int w = 0; w < plan.all_workers(); ++w) {
      const auto cpus = plan.cpus.empty() ? std::vector<int>() : plan.cpus[static_cast<size_t>(w)];
      Device& device = *devices[static_cast<size_t>(w / plan.workers)];
      threads_.push_back(start_thread([this, w, &device, cpus, threads = plan.threads_of(w)] {
        work(w, device, cpus, threads);
      }));
    }
  } catch (...) {
    end();
    throw;
  }
  run([](int) {});  // until all teams are there
}

Workers::~Workers() {
  end();
}

void Workers::end() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  started_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Workers::start(std::function<void(int)> job) {
  {
    const std::lock_guard lock(mutex_);
    assert(running_ == 0);
    job_ = std::move(job);
    running_ = count();
    ++round_;
  }
  started_.notify_all();
}

bool Workers::finished(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  const bool ended = ended_.wait_for(lock, patience, [this] { return running_ == 0; });
  if (ended && error_) std::rethrow_exception(std::exchange(error_, nullptr));
  return ended;
}

void Workers::run(std::function<void(int)> job) {
  start(std::move(job));
  while (!finished(std::chrono::hours(1))) {
  }
}

void Workers::work(int worker, Device& device, const std::vector<int>& cpus, int threads) {
  stay_on(cpus);
  device.set_team(threads);  // starts it now, while its threads are known to be had
  std::unique_lock lock(mutex_);
  for (int64_t round = 1;; ++round) {
    started_.wait(lock, [&] { return stop_ || round_ >= round; });
    if (stop_) return;
    lock.unlock();
    std::exception_ptr error;
    try {
      job_(worker);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    if (!error_) error_ = error;
    if (--running_ == 0) ended_.notify_all();
  }
}

}  // namespace crossbow
