// Ranks in one process: devices of one kind, which copy from each other's memory.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "comm/comm.h"
#include "device/device.h"

namespace crossbow {

/// Makes the ends of a group. A sum is cut into pieces, which whoever waits for it computes, each
/// for all ranks at once. A group ends with the first rank that it loses.
class LocalGroup {
 public:
  /// One rank a device. The vectors' parts have that many elements of that type. `notify` is
  /// called, by any thread, whenever there is new work or a sum is complete.
  LocalGroup(const std::vector<Device*>& devices, std::span<const int64_t> parts, DType dtype,
             std::function<void()> notify);
  ~LocalGroup();

  Comm& rank(int r);
  /// Rank r is lost: sums under way and to come fail on all others. The first reason is kept.
  void lose(int r, const std::string& why);

 private:
  class Rank;
  struct Part {
    int64_t elements, piece, pieces;  // elements of a piece; their number
    int64_t first;                    // of the pieces of a round of all parts
  };

  int ranks() const { return static_cast<int>(ranks_.size()); }
  size_t part_of(Comm::Sum sum) const { return static_cast<size_t>(sum) % parts_.size(); }
  /// Pieces of all sums before, and the sum that a piece belongs to.
  int64_t pieces_before(Comm::Sum sum) const;
  Comm::Sum sum_of(int64_t piece) const;
  bool ready(int64_t piece) const;
  Comm::Sum start(Rank& rank, Queue& queue, void* values, int64_t n);
  Comm::State state(Comm::Sum sum) const;
  bool can_advance() const;
  bool advance();
  void compute(int64_t piece);

  std::vector<Part> parts_;
  int64_t pieces_ = 0;  // of a round
  const DType dtype_;
  const std::function<void()> notify_;
  Buffer other_;                   // another rank's part, where devices have memory of their own
  std::unique_ptr<Event> summed_;  // the last sum
  std::vector<std::unique_ptr<Rank>> ranks_;
  // By part: ends that have started its sums, of all rounds.
  std::vector<std::atomic<int64_t>> started_;
  // Pieces, counted through all sums. One is claimed only when all ranks have started its sum, and
  // the sum before is done.
  std::atomic<int64_t> claimed_{0}, computed_{0};
  std::atomic<bool> lost_{false};
  mutable std::mutex mutex_;  // guards all below
  std::string failure_;
};

}  // namespace crossbow
