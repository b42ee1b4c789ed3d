#include "learner/scheduler.h"

#include <algorithm>
#include <cassert>

namespace crossbow {

Scheduler::Scheduler(int devices, int learners, int workers)
    : devices_(devices),
      learners_(learners),
      workers_(workers),
      states_(std::make_unique<State[]>(static_cast<size_t>(devices * learners))) {}

bool Scheduler::may_run(int worker, int learner) const {
  if (worker / workers_ != learner / learners_) return false;
  const int w = worker % workers_, j = learner % learners_;
  if (learners_ == workers_) return w == j;
  // Worker w has the share [w, w + 1) of the workers' time, and learner j that of [j, j + 1) · W/k.
  const int first = j * workers_ / learners_, last = ((j + 1) * workers_ - 1) / learners_;
  const int behind_first = (w - first + 1 + workers_) % workers_;
  return behind_first <= last - first + 2;
}

void Scheduler::start(int64_t iterations, std::function<bool()> stop) {
  iterations_ = iterations;
  stop_ = std::move(stop);
  for (int j = 0; j < devices_ * learners_; ++j) states_[j].turns = states_[j].place = 0;
  begun_ = 0;
  failed_ = false;
  error_ = nullptr;
}

bool Scheduler::begin(int64_t iteration) {
  int64_t begun = begun_.load(std::memory_order_acquire);
  for (;;) {
    if (iteration < (begun & ~kEnded)) return true;
    if ((begun & kEnded) || iteration >= iterations_) return false;
    const bool stop = stop_();
    if (begun_.compare_exchange_strong(begun, stop ? begun | kEnded : begun + 1)) return !stop;
  }
}

std::optional<Scheduler::Task> Scheduler::pick(int worker) const {
  int best = -1;
  int64_t least = 0;
  const int first = worker / workers_ * learners_;
  for (int n = 0; n < learners_; ++n) {
    // Workers start apart, so that they seldom want the same one.
    const int j = first + (worker % workers_ + n) % learners_;
    const int64_t turns = this->turns(j);
    if (turns % 2 == 1 || !may_run(worker, j)) continue;
    if (best < 0 || turns < least) {
      best = j;
      least = turns;
    }
  }
  if (best < 0) return {};
  return Task{best, least / 2};
}

std::optional<Scheduler::Task> Scheduler::claim(int worker) {
  for (;;) {
    const uint32_t seen = events_.load(std::memory_order_acquire);
    if (failed()) return {};
    if (const auto task = pick(worker)) {
      // No free learner is further behind, and those that are being run stay with their workers.
      if (!begin(task->iteration)) return {};
      int64_t free = 2 * task->iteration;
      if (states_[task->learner].turns.compare_exchange_strong(free, free + 1)) return task;
      continue;  // another worker has begun that step
    }
    events_.wait(seen, std::memory_order_acquire);
  }
}

void Scheduler::finish(const Task& task) {
  assert(turns(task.learner) == 2 * task.iteration + 1);
  states_[task.learner].turns.store(2 * task.iteration + 2, std::memory_order_release);
  notify();
}

/// Sequentially consistent, so that of workers that pass at the same time the last one sees that
/// all have.
void Scheduler::pass(const Task& task, int parts) {
  states_[task.learner].place = place_of(task.iteration, parts);
}

bool Scheduler::passed(int device, int64_t iteration, int parts) const {
  for (int j = device * learners_; j < (device + 1) * learners_; ++j) {
    if (done(j) <= iteration && states_[j].place < place_of(iteration, parts)) return false;
  }
  return true;
}

int64_t Scheduler::completed(int first_learner, int count) const {
  int64_t least = done(first_learner);
  for (int j = 1; j < count; ++j) least = std::min(least, done(first_learner + j));
  return least;
}

void Scheduler::notify() {
  events_.fetch_add(1, std::memory_order_acq_rel);
  events_.notify_all();
}

void Scheduler::fail(std::exception_ptr error) {
  {
    const std::lock_guard lock(error_mutex_);
    if (!error_) error_ = std::move(error);
  }
  failed_.store(true, std::memory_order_release);
  notify();
}

void Scheduler::check() {
  const std::lock_guard lock(error_mutex_);
  if (error_) std::rethrow_exception(error_);
}

}  // namespace crossbow
