#include "data/pipeline.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <chrono>
#include <utility>

#include "core/error.h"
#include "core/machine.h"
#include "core/seconds_since.h"
#include "core/threads.h"

namespace crossbow::data {
namespace {

/// Learners come first: preparing input must not take a core from them while batches are at hand.
void lower_priority_of_this_thread() {
  const auto thread = static_cast<id_t>(syscall(SYS_gettid));
  setpriority(PRIO_PROCESS, thread, getpriority(PRIO_PROCESS, thread) + 10);
}

int default_threads(const EpochRows& rows) {
  if (rows.format().is_sparse()) return 0;
  return rows.split().in_memory() ? 1 : usable_cpus();
}

int64_t batches_of(int64_t samples, int64_t batch) {
  return (samples + batch - 1) / batch;
}

int64_t depth_of(const PipelineOptions& options, int64_t samples) {
  // Little batches need more of them ahead, so that a thread is woken for many at a time.
  const int64_t chosen = std::clamp<int64_t>(128 / options.batch, 4, 64);
  const int64_t depth =
      options.depth > 0 ? options.depth : std::max<int64_t>(chosen, options.least_depth);
  return std::min(depth, batches_of(samples, options.batch));
}

}  // namespace

Pipeline::Pipeline(const Dataset& dataset, std::shared_ptr<const Split> split,
                   const PipelineOptions& options)
    : options_(options),
      rows_(dataset, std::move(split),
            {options.shuffle, options.augment, options.seed, options.shuffle_block}),
      batches_(options.batch < 1 ? 0 : batches_of(rows_.size(), options.batch)),
      rows_at_a_time_(rows_.split().in_memory() ? options.batch : 1) {
  if (options.batch < 1) fail_usage("a batch holds at least 1 sample, not {}", options.batch);
  serve(depth_of(options, rows_.size()), {});
  const int threads = options.threads > 0 ? options.threads : default_threads(rows_);
  try {
    for (int t = 0; t < threads; ++t) threads_.push_back(start_thread([this] { work(); }));
  } catch (...) {
    end();
    throw;
  }
}

Pipeline::~Pipeline() {
  end();
}

void Pipeline::end() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  can_fill_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Pipeline::serve(int64_t depth, const BatchShare& share) {
  const std::lock_guard lock(mutex_);
  share_ = share;
  while (static_cast<int64_t>(slots_.size()) < std::min(depth, batches_)) {
    Slot& slot =
        slots_.emplace_back(BatchMemory(rows_.format(), options_.batch, options_.allocate));
    slot.batch.fields = slot.memory.addresses();
    ++free_;
  }
  can_fill_.notify_all();
}

int64_t Pipeline::buffer_bytes() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int64_t>(slots_.size() * BatchMemory::bytes(rows_.format(), options_.batch));
}

int64_t Pipeline::buffer_bytes(const BatchFormat& format, int64_t samples,
                               const PipelineOptions& options) {
  return depth_of(options, samples) *
         static_cast<int64_t>(BatchMemory::bytes(format, options.batch));
}

void Pipeline::start(int64_t epoch, int64_t first_batch) {
  std::unique_lock lock(mutex_);
  if (held_ > 0) fail("an epoch begins only when all batches of the last are released");
  if (first_batch < 0 || first_batch > batches_) {
    fail("an epoch of {} batches cannot begin at batch {}", batches_, first_batch);
  }
  end_ = next_;
  if (open_) leave_rest(*open_);
  made_.wait(lock, [this] { return filling_ == 0; });

  for (Slot& slot : slots_) {
    slot.state = State::free;
    slot.error = nullptr;
  }
  free_ = static_cast<int>(slots_.size());
  rows_.start(epoch);
  share_.begin = first_batch;
  next_ = expected_ = share_.next_from(first_batch);
  // Those that the threads begin with would be announced too late.
  const int64_t at_once = std::ssize(threads_) * rows_at_a_time_ + options_.batch - 1;
  for (int64_t ahead = at_once / options_.batch; ahead > 0; --ahead) {
    expected_ = share_.next_from(expected_ + 1);
  }
  end_ = batches_;
  waited_seconds_ = 0;
  cancelled_ = false;
  can_fill_.notify_all();
}

const Batch& Pipeline::acquire(int64_t index) {
  std::unique_lock lock(mutex_);
  if (index < 0 || index >= end_) fail("there is no batch {} in an epoch of {}", index, end_);
  Slot* slot = threads_.empty() ? &make(index, lock) : find(State::ready, index);
  if (!slot) {
    const auto begin = std::chrono::steady_clock::now();
    ++waiting_;
    can_fill_.notify_all();
    made_.wait(lock, [&] {
      slot = find(State::ready, index);
      return slot || cancelled_ || (index < next_ && !find(State::filling, index));
    });
    --waiting_;
    waited_seconds_ += seconds_since(begin);
    if (!slot && cancelled_) fail("batch {} is not waited for any more", index);
    if (!slot) fail("batch {} was served before, or the epoch began after it", index);
  }
  ++held_;
  slot->state = State::held;
  if (!slot->error) return slot->batch;

  const std::exception_ptr error = std::exchange(slot->error, nullptr);
  lock.unlock();
  release(slot->batch);
  std::rethrow_exception(error);
}

void Pipeline::release(const Batch& batch) {
  bool wake;
  {
    const std::lock_guard lock(mutex_);
    Slot* const slot = find(State::held, batch.index);
    assert(slot);
    slot->state = State::free;
    --held_;
    ++free_;
    wake = may_begin();
  }
  if (wake) can_fill_.notify_all();
}

void Pipeline::cancel() {
  {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
  }
  made_.notify_all();
}

double Pipeline::take_waited_seconds() {
  const std::lock_guard lock(mutex_);
  return std::exchange(waited_seconds_, 0);
}

Pipeline::Slot* Pipeline::find(State state, int64_t index) {
  for (Slot& slot : slots_) {
    if (slot.state == state && slot.batch.index == index) return &slot;
  }
  return nullptr;
}

bool Pipeline::may_begin() const {
  return next_ < end_ && free_ > 0 &&
         (2 * free_ >= static_cast<int>(slots_.size()) || waiting_ > 0);
}

void Pipeline::work() {
  lower_priority_of_this_thread();
  RowScratch scratch;
  std::unique_lock lock(mutex_);
  for (;;) {
    can_fill_.wait(lock, [this] { return stop_ || open_ || may_begin(); });
    while (!stop_ && (open_ || (next_ < end_ && free_ > 0))) {
      if (!open_) {
        open_ = &begin(next_);
        next_ = share_.next_from(next_ + 1);
      }
      fill(*open_, scratch, lock);
    }
    if (stop_) return;
  }
}

Pipeline::Slot& Pipeline::make(int64_t index, std::unique_lock<std::mutex>& lock) {
  if (free_ == 0) fail("batch {} is asked for while all buffers are in use", index);
  Slot& slot = begin(index);
  while (slot.taken < slot.batch.rows) fill(slot, unused_, lock);
  return slot;
}

Pipeline::Slot& Pipeline::begin(int64_t index) {
  Slot& slot = *std::find_if(slots_.begin(), slots_.end(),
                             [](const Slot& s) { return s.state == State::free; });
  slot.state = State::filling;
  slot.batch.index = index;
  slot.batch.rows = std::min(options_.batch, rows_.size() - index * options_.batch);
  slot.taken = slot.done = 0;
  slot.expected = expected_;
  expected_ = share_.next_from(expected_ + 1);
  --free_;
  ++filling_;
  return slot;
}

void Pipeline::fill(Slot& slot, RowScratch& scratch, std::unique_lock<std::mutex>& lock) {
  const int64_t at = slot.taken, end = std::min(at + rows_at_a_time_, slot.batch.rows);
  slot.taken = end;
  if (end == slot.batch.rows) open_ = nullptr;
  lock.unlock();
  std::exception_ptr error;
  try {
    rows_.expect(slot.expected * options_.batch + at, end - at);
    rows_.write(slot.batch.index * options_.batch, at, end, scratch, slot.memory.fields());
    if (end == slot.batch.rows) rows_.clear(end, options_.batch, slot.memory.fields());
  } catch (...) {
    error = std::current_exception();
  }
  lock.lock();
  slot.done += end - at;
  if (error) {
    if (!slot.error || at < slot.error_at) {
      slot.error = error;
      slot.error_at = at;
    }
    leave_rest(slot);
  }
  if (slot.done < slot.batch.rows) return;
  slot.state = State::ready;
  --filling_;
  made_.notify_all();
}

void Pipeline::leave_rest(Slot& slot) {
  slot.done += slot.batch.rows - slot.taken;
  slot.taken = slot.batch.rows;
  if (open_ == &slot) open_ = nullptr;
}

}  // namespace crossbow::data
