// Which worker runs which learner's step when. On each device k learners share W ≤ k workers; every
// learner does the iterations of a segment in order, and waits for others only where it must.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

namespace crossbow {

/// Lock-free but for failing. Between two segments one thread owns it; during a segment each worker
/// calls claim and finish in turn, and any of them wait.
///
/// Claims take the device's free learner that is furthest behind. So its workers never all wait for
/// one that nobody runs: whoever last finished a step of one that is furthest behind runs such a
/// one next, and that one's step waits for none of a later iteration. (Whoever last ran a learner
/// may run it again.)
class Scheduler {
 public:
  struct Task {
    int learner;
    int64_t iteration;
  };

  /// Of each device; learners and workers of a device are numbered in a row.
  Scheduler(int devices, int learners, int workers);

  /// The learners of a device are dealt evenly to its workers, in order. A learner may run on the
  /// workers that it is dealt to and, where there are more learners than workers, on their
  /// neighbours, so that no worker is idle for long. So few workers bind a learner.
  bool may_run(int worker, int learner) const;

  /// Begins a segment of that many iterations, counted from 0. `stop` is asked before each
  /// iteration that no learner has begun yet; once it says yes none is begun any more.
  void start(int64_t iterations, std::function<bool()> stop);

  /// The next step for this worker, or nothing if the segment is over for it.
  std::optional<Task> claim(int worker);
  void finish(const Task& task);
  /// Of a step that has parts, which others may read one after the other: the first `parts` are
  /// done. By its worker, who sees to what may follow upon them, as nobody is notified.
  void pass(const Task& task, int parts);

  /// Steps that the learner has finished in this segment. What it wrote in them may be read.
  int64_t done(int learner) const { return turns(learner) / 2; }
  /// Iterations that all learners have finished, and all of one device.
  int64_t completed() const { return completed(0, devices_ * learners_); }
  int64_t completed(int device) const { return completed(device * learners_, learners_); }
  /// Whether all learners of a device have passed so many parts of that iteration's steps.
  bool passed(int device, int64_t iteration, int parts) const;
  /// Iterations that have been begun: where the segment ends, once every worker has run out of
  /// tasks.
  int64_t begun() const { return begun_.load(std::memory_order_acquire) & ~kEnded; }

  /// Blocks until `ready()`, which must depend only on what becomes true before a `finish` or
  /// `notify`. False if the segment failed meanwhile.
  template <typename F>
  bool wait(F ready) {
    for (;;) {
      const uint32_t seen = events_.load(std::memory_order_acquire);
      if (failed()) return false;
      if (ready()) return true;
      events_.wait(seen, std::memory_order_acquire);
    }
  }
  void notify();

  /// Ends the segment: claims give nothing and waits return false. The first error is kept.
  void fail(std::exception_ptr error);
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  /// Rethrows what the segment failed with, if it did.
  void check();

 private:
  /// Of a learner: how many steps were begun and how many finished, in one number, which is odd
  /// while one runs. So no worker begins a step that another has run between its two looks, and
  /// none holds a learner without running it, which others would wait for in vain.
  struct alignas(64) State {
    std::atomic<int64_t> turns{0};
    std::atomic<int64_t> place{0};  // place_of what was passed last
  };
  /// In the order in which a learner passes them.
  static int64_t place_of(int64_t iteration, int parts) { return (iteration << 8) + parts; }

  int64_t turns(int learner) const {
    return states_[learner].turns.load(std::memory_order_acquire);
  }
  /// Whether that iteration may run: it was begun before, or this call begins it.
  bool begin(int64_t iteration);
  /// The next step of the free learner that is furthest behind, of those that this worker may run.
  std::optional<Task> pick(int worker) const;
  int64_t completed(int first_learner, int count) const;

  const int devices_, learners_, workers_;  // the latter of a device
  const std::unique_ptr<State[]> states_;
  int64_t iterations_ = 0;
  std::function<bool()> stop_;
  // How many iterations were begun, and whether that was the last one: in one word, so that no
  // worker begins one that another has already decided to leave out.
  static constexpr int64_t kEnded = int64_t{1} << 62;
  std::atomic<int64_t> begun_{0};
  std::atomic<bool> failed_{false};
  std::atomic<uint32_t> events_{0};
  std::mutex error_mutex_;
  std::exception_ptr error_;
};

}  // namespace crossbow
