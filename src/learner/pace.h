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
  /// Rows that take as long as the rest of a step; 0: its time does not depend on its rows.
  double costly_rows = 0;

  /// Of a node's step of that number in the run, on so many rows.
  double duration(uint64_t seed, int node, int64_t step, int64_t rows) const;
};

}  // namespace crossbow
