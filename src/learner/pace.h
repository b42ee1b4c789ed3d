// How long steps take on the virtual clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace crossbow {

/// In steps of an ordinary node.
struct Pace {
  /// Of the logarithm of a step's time, which is normal; the mean time stays.
  double spread = 0.1;
  std::vector<double> slowness;  // by node, a factor; 1 beyond the last

  /// Of a node, 1 for most.
  double slowness_of(int node) const {
    const auto at = static_cast<size_t>(node);
    return at < slowness.size() ? slowness[at] : 1;
  }
  /// Of a node's step of that number in the run.
  double duration(uint64_t seed, int node, int64_t step) const;
};

}  // namespace crossbow
