// Batches whose steps have failed, for another try.
#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <mutex>
#include <optional>
#include <vector>

#include "data/batch_source.h"
#include "device/buffer.h"
#include "learner/learner.h"

namespace crossbow {

/// Keeps copies, so that it does not matter who still reads the batch. Of threads holds what a
/// batch source promises; all else is for one at a time.
class Retries : public data::BatchSource {
 public:
  explicit Retries(const BatchShape& shape) : shape_(shape) {}

  void add(const data::Batch& batch);
  bool empty() const { return waiting_.empty(); }
  /// The index of the oldest that waits.
  std::optional<int64_t> oldest() const;
  /// There is one; it does not wait any more.
  int64_t take();

  /// One that has been taken.
  const data::Batch& acquire(int64_t index) override;
  void release(const data::Batch& batch) override;

 private:
  struct Copy {
    data::Batch batch;
    std::array<Buffer, kFields> fields;
  };

  const BatchShape shape_;
  std::vector<int64_t> waiting_;
  std::mutex mutex_;        // guards the copies
  std::list<Copy> copies_;  // each stays where it is
};

}  // namespace crossbow
