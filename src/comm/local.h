// Ranks in one process: devices of one kind, which copy from each other's memory.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "comm/comm.h"
#include "device/device.h"

namespace crossbow {

/// Makes the ends of a group. A sum is cut into pieces, which whoever waits for it computes, each
/// for all ranks at once. A group ends with the first rank that it loses.
class LocalGroup {
 public:
  /// One rank a device. All vectors have that many elements of that type. `notify` is called, by
  /// any thread, whenever there is new work or an operation is complete.
  LocalGroup(const std::vector<Device*>& devices, int64_t elements, DType dtype,
             std::function<void()> notify);
  ~LocalGroup();

  Comm& rank(int r);
  /// Rank r is lost: sums under way and to come fail on all others. The first reason is kept.
  void lose(int r, const std::string& why);

 private:
  class Rank;

  int ranks() const { return static_cast<int>(ranks_.size()); }
  Comm::Sum start(Rank& rank, Queue& queue, void* values, int64_t n);
  Comm::State state(Comm::Sum sum) const;
  bool can_advance() const;
  bool advance();
  void compute(int64_t piece);

  const int64_t elements_, piece_, pieces_;  // of elements; their number
  const DType dtype_;
  const std::function<void()> notify_;
  Buffer other_;                   // another rank's vector, where devices have memory of their own
  std::unique_ptr<Event> summed_;  // the last operation
  std::vector<std::unique_ptr<Rank>> ranks_;
  // Of all operations: ends that have started theirs; pieces, counted through. A piece is claimed
  // only when all ranks have started its operation, and none starts the next before its end.
  std::atomic<int64_t> started_{0}, claimed_{0}, computed_{0};
  std::atomic<bool> lost_{false};
  mutable std::mutex mutex_;  // guards all below
  std::string failure_;
};

}  // namespace crossbow
