// How ranks add up vectors: the devices of a process, or processes on many machines.
#pragma once

#include <cstdint>
#include <string>

#include "device/device.h"

namespace crossbow {

/// One rank's end of a group. Nothing waits for other ranks: who waits for a sum works on it
/// meanwhile, or does something else. Any thread may call what does not say otherwise.
class Comm {
 public:
  virtual ~Comm() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// A sum that this rank has started: the first is 0, the next 1, and so on.
  using Sum = int64_t;
  enum class State { running, done, failed };

  /// Begins to replace `values` (n elements), as they are when the queue has done its work so far,
  /// by their sum over all ranks: the same bits on every rank. A group has parts of a vector, which
  /// all ranks start in turn, over and over, and each part when its last sum is done; others may be
  /// under way, and sums end in their order. The values and the queue belong to the sum until then.
  /// One thread at a time. Throws Error if n is not the part's.
  virtual Sum start_sum(Queue& queue, void* values, int64_t n) = 0;
  /// Done: what the queue is given from now on sees the sum. Failed: a rank is lost, as failure()
  /// says, and so are all sums that are not done; who waits for one throws RankLost.
  virtual State state(Sum sum) const = 0;
  virtual std::string failure() const = 0;
  /// Works on what has started: a little at a time; false if there is nothing to do.
  virtual bool advance() = 0;
  /// Whether advance() would find something to do.
  virtual bool can_advance() const = 0;
};

}  // namespace crossbow
