// Which rows of a segment a node's next step takes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "data/batch_source.h"
#include "learner/retries.h"

namespace crossbow {

/// What a step takes: of an epoch's batches those in [first, first + count), which nobody else has.
/// Where its `size`, in batches, is more, rows before these fill it up, which have been given out
/// before.
struct Work {
  int64_t first = 0, count = 1, size = 1;
  bool second_try = false;  // a step on these has failed before

  bool operator==(const Work&) const = default;
};

/// A step's rows, and what they are.
struct Fetched {
  const data::Batch* batch = nullptr;
  data::BatchSource* source = nullptr;  // who gets them back
  int64_t first = 0, count = 1;         // of the epoch's batches
  int64_t first_row = 0;                // in the epoch
};

/// Hands out a share of a segment's batches, first to last. Of one engine, whose lock the caller
/// holds, except for `fetch`, which any thread may call.
class Dispatcher {
 public:
  virtual ~Dispatcher() = default;

  void begin(data::BatchSource& source, int64_t first, int64_t batches,
             const data::BatchShare& share = {}) {
    source_ = &source;
    share_ = share;
    end_ = first + batches;
    next_ = std::min(share_.next_from(first), end_);
  }
  /// Nothing if there is none for this node; then others have some under way, or take the rest.
  virtual std::optional<Work> next(int node) = 0;
  /// The node's step is in the model.
  virtual void done(int /*node*/) {}
  /// The node's step on that batch has failed, and the node takes no more.
  virtual void give_back(int node, const Work& work, const data::Batch& batch) = 0;

  /// Work that was given back waits to be done.
  bool gives_again() const { return oldest().has_value(); }
  bool all_handed_out() const { return next_ == end_; }
  bool left() const { return gives_again() || !all_handed_out(); }
  /// The first batch that no step has.
  int64_t first_open() const { return oldest().value_or(next_); }

  /// Blocks until the rows are there.
  virtual Fetched fetch(const Work& work, int node) = 0;

 protected:
  /// Of what was given back, its first batch.
  virtual std::optional<int64_t> oldest() const = 0;
  data::BatchSource& source() const { return *source_; }
  data::BatchShare share_;
  int64_t next_ = 0, end_ = 0;  // of the share's batches that nobody has had

 private:
  data::BatchSource* source_ = nullptr;
};

/// A batch a step, whoever asks.
class BatchByBatch final : public Dispatcher {
 public:
  explicit BatchByBatch(const BatchShape& shape) : rows_(shape.rows), retries_(shape) {}

  std::optional<Work> next(int node) override;
  void give_back(int node, const Work& work, const data::Batch& batch) override;
  Fetched fetch(const Work& work, int node) override;

 private:
  std::optional<int64_t> oldest() const override { return retries_.oldest(); }

  const int64_t rows_;
  Retries retries_;
};

}  // namespace crossbow
