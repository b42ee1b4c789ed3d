// The one thread of a process that calls MPI (MPI_THREAD_FUNNELED).
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "comm/mpi/calls.h"

namespace crossbow {

/// Null if there is no module with MPI's calls, as `why` says.
MpiCalls* load_mpi_calls(std::string& why);

/// Throws Error if there are more than MPI takes.
int size_for_mpi(size_t bytes);

/// Does tasks one after the other. Any thread may call what does not say otherwise.
class MpiThread {
 public:
  /// Throws Error if there is no MPI.
  MpiThread();
  ~MpiThread();
  MpiThread(const MpiThread&) = delete;

  void join();

  /// `task` must not throw.
  void do_later(std::function<void()> task);
  /// Returns when it is done; rethrows.
  void do_now(const std::function<void(MpiCalls&)>& task);
  [[noreturn]] void abort(int code);

  /// For tasks, which wait for what they begin.
  MpiCalls& calls() { return calls_; }
  /// For tasks: until what was begun last is done; `crowded` as below.
  void wait(bool crowded = false) {
    wait_until([this] { return calls_.is_done(); }, crowded);
  }
  /// For tasks: asks `done` over and over, and leaves the core to others as `rest` does. A long
  /// moment shows that a learner computes on the core, which it keeps for milliseconds each time
  /// but not beyond a nap's end; from then on it is naps of a tenth of the time, 0.1 to 10 ms, as
  /// each costs the step 16 µs. `crowded`: that is so from the beginning.
  void wait_until(const std::function<bool()>& done, bool crowded = false);
  /// For tasks that call MPI over and over, as it moves data while it is called: leaves the core to
  /// others. Where something is awaited and the last thing ended or began at most 5 ms ago, that is
  /// for a moment. Else it naps until it is `called`, at most for a thousandth of the time since
  /// then, or a tenth where other threads have had half a core since it last napped, within 0.1 to
  /// 10 ms. May return with the lock released.
  void rest(std::unique_lock<std::mutex>& lock, std::condition_variable& called,
            std::chrono::steady_clock::time_point last_event, bool awaits);

 private:
  void work();
  void obey_abort();

  MpiCalls& calls_;
  std::mutex mutex_;  // guards the tasks and what do_now waits for
  std::condition_variable changed_, done_;
  std::deque<std::function<void()>> tasks_;
  std::atomic<int> abort_code_{-1};
  // By the thread:
  bool joined_ = false, over_ = false;
  std::chrono::steady_clock::time_point rested_before_;
  std::chrono::nanoseconds used_before_{};  // of the processor by others, when it rested before
  std::thread thread_;                      // last
};

}  // namespace crossbow
