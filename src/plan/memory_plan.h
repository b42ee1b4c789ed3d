// Where in one arena each temporary lies, so that those alive at different times share memory.
#pragma once

#include <cstddef>
#include <vector>

namespace crossbow {

/// A stretch of memory needed from step `first` to step `last`, both inclusive.
struct Lifetime {
  size_t bytes = 0;
  int first = 0, last = 0;
};

struct MemoryPlan {
  std::vector<size_t> offsets;  // of each lifetime, multiples of 64
  size_t bytes = 0;             // of the arena
};

/// Greedy by size: the largest first, each at the lowest offset free during its life (Pisarchyk &
/// Lee 2020, "greedy by size for offset calculation"). Deterministic. Without reuse everything
/// gets memory of its own.
MemoryPlan plan_memory(const std::vector<Lifetime>& lifetimes, bool reuse);

}  // namespace crossbow
