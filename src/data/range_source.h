// Ranges of an epoch's rows, made when they are asked for, by whoever asks: for workers whose
// batches differ in size, which nobody knows ahead.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "data/batch_memory.h"
#include "data/batch_source.h"
#include "data/epoch_rows.h"

namespace crossbow::data {

/// Serves any range of an epoch's rows, any number of times; what it holds depends on the options,
/// the epoch and the range only. After its first ranges it allocates nothing.
class RangeSource final : public TrainingBatches {
 public:
  /// A holder has at most `held` ranges at a time, each of at most as many rows as `largest` says
  /// of it. `batch`: the rows of what counts as a batch.
  RangeSource(const Dataset& dataset, std::shared_ptr<const Split> split, const RowOptions& options,
              int64_t batch, std::span<const int64_t> largest, int held = 1,
              const AllocatePages& allocate = {});

  int64_t samples() const override { return rows_.size(); }
  int64_t batches() const override { return (samples() + batch_ - 1) / batch_; }
  void start(int64_t epoch, int64_t first_batch) override;
  const Batch& acquire(int64_t index) override;  // for the first holder
  /// Throws Error if a sample cannot be decoded.
  const Batch& acquire_rows(int64_t first, int64_t rows, int holder) override;
  void release(const Batch& batch) override;
  int64_t buffer_bytes() const override;
  double take_waited_seconds() override { return 0; }

 private:
  struct Slot {
    int holder;
    int64_t room;  // rows
    BatchMemory memory;
    RowScratch scratch;
    Batch batch = {};
    bool held = false;
  };
  /// A free one of that holder's, from now on held.
  Slot& take(int holder);

  const int64_t batch_;
  EpochRows rows_;  // read without the lock by whoever acquires
  std::mutex mutex_;
  std::deque<Slot> slots_;  // each stays where it is; `held` is guarded
};

}  // namespace crossbow::data
