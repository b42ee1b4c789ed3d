#include "plan/memory_plan.h"

#include <algorithm>
#include <cassert>
#include <numeric>

namespace crossbow {
namespace {

constexpr size_t kAlignment = 64;

size_t aligned(size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

bool overlap(const Lifetime& a, const Lifetime& b) {
  return a.first <= b.last && b.first <= a.last;
}

}  // namespace

MemoryPlan plan_memory(const std::vector<Lifetime>& lifetimes, bool reuse) {
  MemoryPlan plan{std::vector<size_t>(lifetimes.size()), 0};
  std::vector<size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return lifetimes[a].bytes > lifetimes[b].bytes; });

  std::vector<size_t> placed;  // by ascending offset
  for (size_t id : order) {
    assert(lifetimes[id].first <= lifetimes[id].last);
    const size_t bytes = aligned(lifetimes[id].bytes);
    size_t offset = 0;
    for (size_t other : placed) {
      if (reuse && !overlap(lifetimes[id], lifetimes[other])) continue;
      if (offset + bytes <= plan.offsets[other]) break;
      offset = std::max(offset, plan.offsets[other] + aligned(lifetimes[other].bytes));
    }
    plan.offsets[id] = offset;
    plan.bytes = std::max(plan.bytes, offset + bytes);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), offset,
                                   [&](size_t at, size_t p) { return at < plan.offsets[p]; }),
                  id);
  }
  return plan;
}

}  // namespace crossbow
