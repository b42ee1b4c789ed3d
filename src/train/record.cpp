#include "train/record.h"

#include <algorithm>

namespace crossbow {

const EpochRecord* best_of(const std::vector<EpochRecord>& history) {
  const EpochRecord* best = nullptr;
  for (const EpochRecord& r : history) {
    if (r.test_accuracy && (!best || *r.test_accuracy > *best->test_accuracy)) best = &r;
  }
  return best;
}

int64_t evaluations_since_best(const std::vector<EpochRecord>& history) {
  const EpochRecord* best = best_of(history);
  if (!best) return 0;
  return std::count_if(best + 1, history.data() + history.size(),
                       [](const EpochRecord& r) { return r.test_accuracy.has_value(); });
}

}  // namespace crossbow
