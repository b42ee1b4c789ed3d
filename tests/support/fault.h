// An op that fails, or takes its time, when a test says so.
#pragma once

#include <cstdint>
#include <functional>

#include "graph/graph.h"

namespace crossbow::testing {

/// x, on the devices cpu and ref. Each run first calls what WithFaults was given.
Tensor fault(Tensor x);

/// `at` is called by all threads, with the epoch and the first sample of a step; there is one
/// WithFaults at a time.
class WithFaults {
 public:
  using At = std::function<void(int64_t epoch, int64_t first_sample)>;
  explicit WithFaults(At at);
  ~WithFaults();
  WithFaults(const WithFaults&) = delete;
};

}  // namespace crossbow::testing
