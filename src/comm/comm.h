// How ranks exchange vectors: the devices of a machine now; processes on many machines later.
#pragma once

#include <cstdint>

#include "device/device.h"

namespace crossbow {

/// One rank's end. Nothing here blocks: who waits for an operation works on it meanwhile, or does
/// something else.
///
/// Operations are numbered from 0 in the order in which they start, which must be the same on all
/// ranks, with vectors of the same length. A rank starts one when its last one is complete.
class Comm {
 public:
  virtual ~Comm() = default;

  /// Begins to replace `values` (n elements), as they are when the queue has done its work so far,
  /// by their sum over all ranks, added up in the order of the ranks: the same bits on every rank.
  /// The vector, and the queue, belong to the operation until it is complete. One thread at a time.
  virtual void start_sum(Queue& queue, void* values, int64_t n) = 0;

  /// Any thread. Whether that operation, which may not even have started, is complete on this rank:
  /// what its queue is given from now on sees the sum.
  virtual bool complete(int64_t operation) const = 0;
  /// Any thread. Works on what has started: a little at a time; false if there is nothing to do.
  virtual bool advance() = 0;
  /// Whether advance() would find something to do.
  virtual bool can_advance() const = 0;
};

}  // namespace crossbow
