// A vector that many threads change, in an order that is agreed on before they do.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "core/error.h"
#include "device/device.h"

namespace crossbow {

/// In chunks, so that one operation may follow closely upon another. Each takes its place in line
/// under a lock that its users share, and then, without it, waits for its turn at each chunk in
/// ascending order. Places that several vectors give under one hold of the lock are in one order,
/// so operations on several vectors cannot wait for each other in a circle.
class OrderedVector {
 public:
  OrderedVector() = default;
  OrderedVector(Device& device, size_t bytes, size_t chunks)
      : data_(device.allocate_zeroed(bytes)),
        done_(std::make_unique<std::atomic<int64_t>[]>(chunks)) {
    for (size_t chunk = 0; chunk < chunks; ++chunk) changed_.push_back(device.make_event());
  }

  std::byte* data() const { return data_.data(); }

  /// With the lock.
  int64_t enter() { return next_++; }
  /// What the queue is given from now on sees what those before in line have made of the chunk.
  /// Throws Error if they have been given up.
  void wait(size_t chunk, int64_t place, Queue& queue, const std::atomic<bool>& given_up) const {
    while (done_[chunk].load(std::memory_order_acquire) < place) {
      if (given_up.load(std::memory_order_relaxed)) fail("another node has failed");
      std::this_thread::yield();
    }
    queue.wait(*changed_[chunk]);
  }
  /// The next in line may have the chunk when the queue has done its work so far.
  void pass(size_t chunk, int64_t place, Queue& queue) {
    queue.mark(*changed_[chunk]);
    done_[chunk].store(place + 1, std::memory_order_release);
  }

 private:
  Buffer data_;
  // By chunk: the last change, and operations.
  std::vector<std::unique_ptr<Event>> changed_;
  std::unique_ptr<std::atomic<int64_t>[]> done_;
  int64_t next_ = 0;
};

}  // namespace crossbow
