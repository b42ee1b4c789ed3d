// Where learners get their batches.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/batch_format.h"

namespace crossbow::data {

struct Batch {
  int64_t index = 0;  // within the epoch
  int64_t rows = 0;   // samples; less than the batch size in the last batch only
  // Each is page-aligned and as long as a whole batch: zeros follow the rows of a partial one, but
  // for the values and columns of sparse rows.
  FieldAddresses fields{};

  /// Of batches of floats: batch × the sample's elements; of images C × H × W, normalised.
  const float* samples() const { return static_cast<const float*>(fields[kSamples]); }
  /// Of batches of pixels: batch × C × H × W.
  const uint8_t* pixels() const { return static_cast<const uint8_t*>(fields[kSamples]); }
  /// batch; of samples that have one class each.
  const int32_t* labels() const { return static_cast<const int32_t*>(fields[kLabels]); }
};

/// Of each `all` consecutive batches, counted from `begin`, `count` from `first` on.
struct BatchShare {
  int64_t first = 0, count = 1, all = 1;
  int64_t begin = 0;

  /// The first of these from that batch on, which is not before `begin`.
  int64_t next_from(int64_t batch) const {
    const int64_t place = (batch - begin) % all;
    if (place < first) return batch + first - place;
    return place < first + count ? batch : batch + all - place + first;
  }
  /// Of these batches, which are not before `begin`.
  int64_t count_in(int64_t from, int64_t batches) const {
    const auto before = [this](int64_t batch) {
      const int64_t rounds = (batch - begin) / all, place = (batch - begin) % all;
      return rounds * count + std::clamp<int64_t>(place - first, 0, count);
    };
    return before(from + batches) - before(from);
  }
};

/// Any number of threads may acquire and release at a time.
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  /// Blocks until batch `index` is ready; it stays valid until released. Each index is asked for
  /// once an epoch, in about ascending order.
  virtual const Batch& acquire(int64_t index) = 0;
  /// The rows [first, first + rows) of the epoch as one batch, any number of times, for one of the
  /// holders of a source that serves ranges (RangeSource). Others throw Error.
  virtual const Batch& acquire_rows(int64_t first, int64_t rows, int holder);
  virtual void release(const Batch& batch) = 0;
  /// The epoch is given up: who waits in `acquire`, or would have to, gets an Error instead.
  virtual void cancel() {}
};

/// All batches of a split, epoch after epoch: every sample comes once an epoch.
class TrainingBatches : public BatchSource {
 public:
  virtual int64_t samples() const = 0;
  /// In an epoch: samples / batch, rounded up.
  virtual int64_t batches() const = 0;
  /// Begins an epoch at batch `first_batch` (in [0, batches()]), from where shares are counted,
  /// dropping what was under way. One thread, while no batch is held.
  virtual void start(int64_t epoch, int64_t first_batch) = 0;
  /// Where batches are made ahead: from now on at least so many of them, or one for each batch of
  /// an epoch; and only those of this share, as others are served elsewhere.
  virtual void serve(int64_t /*depth*/, const BatchShare& /*share*/) {}
  /// Of the buffers that there are.
  virtual int64_t buffer_bytes() const = 0;
  /// Seconds that callers have spent blocked in `acquire` since `start` or the last such call,
  /// summed over them.
  virtual double take_waited_seconds() = 0;
};

}  // namespace crossbow::data
