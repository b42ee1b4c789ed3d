// Batches ready to train on: reads, decodes and augments ahead of the learners, on threads of its
// own, into recycled buffers.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "data/batch_memory.h"
#include "data/batch_source.h"
#include "data/epoch_rows.h"

namespace crossbow::data {

struct PipelineOptions {
  int64_t batch = 16;
  bool shuffle = false;  // a new order each epoch, from the seed
  Augment augment;
  uint64_t seed = 0;
  int64_t shuffle_block = 0;  // see RowOptions
  /// 0: none for sparse rows, which whoever asks for them writes quicker than another thread could
  /// hand them over; one for other samples in memory, one a core for samples to be decoded.
  int threads = 0;
  /// Number of buffers: batches made ready plus batches in use. It must exceed the number of
  /// batches that learners hold at a time; 0 chooses by the size of a batch. There are no more than
  /// an epoch has batches.
  int depth = 0;
  int least_depth = 0;          // of what 0 chooses
  AllocatePages allocate = {};  // of the buffers
};

/// Serves each epoch's batches in the order of their indices. Threads that decode samples share a
/// batch, so that the next one is ready soonest, and there may be more threads than buffers. Every
/// sample comes once an epoch, and what a batch holds depends on the options, the epoch and its
/// index only, not on the number of threads or the time of arrival. After each thread's first rows
/// it allocates nothing but in `serve`.
///
/// Threads: any number of learners may acquire and release at a time, each index once an epoch, in
/// about ascending order; `start`, `serve` and the destructor to one thread, while no batch is
/// held.
class Pipeline : public TrainingBatches {
 public:
  Pipeline(const Dataset& dataset, std::shared_ptr<const Split> split,
           const PipelineOptions& options);
  ~Pipeline() override;
  Pipeline(const Pipeline&) = delete;

  int64_t samples() const override { return rows_.size(); }
  int64_t batches() const override { return batches_; }
  void start(int64_t epoch, int64_t first_batch) override;
  void start(int64_t epoch) { start(epoch, 0); }
  /// Blocks until batch `index` is ready; it stays valid until released. Rethrows what went wrong
  /// in making it (the later ones can still be had).
  const Batch& acquire(int64_t index) override;
  void release(const Batch& batch) override;
  void cancel() override;

  /// There are as many buffers, at least.
  void serve(int64_t depth, const BatchShare& share) override;
  int64_t buffer_bytes() const override;
  /// Of those that such options ask for.
  static int64_t buffer_bytes(const BatchFormat& format, int64_t samples,
                              const PipelineOptions& options);

  double take_waited_seconds() override;

 private:
  enum class State { free, filling, ready, held };
  struct Slot {
    explicit Slot(BatchMemory room) : memory(std::move(room)) {}
    Batch batch;
    State state = State::free;
    int64_t taken = 0, done = 0;  // rows of a batch that is being filled
    int64_t expected = 0;         // the batch whose rows are announced meanwhile
    std::exception_ptr error;     // of its first row that cannot be made
    int64_t error_at = 0;
    BatchMemory memory;
  };

  void work();
  void end();
  /// A thread that has slept is to go on: half of the buffers are free, so that few batches cost a
  /// wake-up, or a learner waits.
  bool may_begin() const;
  /// Takes a free slot.
  Slot& begin(int64_t index);
  /// Takes and makes some rows. With the lock, without which it makes them.
  void fill(Slot& slot, RowScratch& scratch, std::unique_lock<std::mutex>& lock);
  /// Rows that nobody has taken are not made.
  void leave_rest(Slot& slot);
  /// The batch, by the thread that asks, if there are no others. With the lock.
  Slot& make(int64_t index, std::unique_lock<std::mutex>& lock);
  Slot* find(State state, int64_t index);

  const PipelineOptions options_;
  EpochRows rows_;  // read without the lock while some slot is filling
  const int64_t batches_;
  const int64_t rows_at_a_time_;  // of a batch, by a thread

  mutable std::mutex mutex_;  // guards all below
  std::condition_variable can_fill_, made_;
  std::deque<Slot> slots_;  // each stays where it is
  Slot* open_ = nullptr;    // one with rows that nobody has taken, for threads to share
  BatchShare share_;
  int64_t next_ = 0, end_ = 0;  // batches yet to fill
  int64_t expected_ = 0;        // the next batch to be announced
  int free_ = 0, filling_ = 0, held_ = 0, waiting_ = 0;
  double waited_seconds_ = 0;
  bool stop_ = false, cancelled_ = false;
  std::vector<std::thread> threads_;
  RowScratch unused_;  // of samples in memory
};

}  // namespace crossbow::data
