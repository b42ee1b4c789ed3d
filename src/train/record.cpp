#include "train/record.h"

#include <algorithm>

namespace crossbow {

bool is_better(const EpochRecord& a, const EpochRecord& b) {
  return a.test_accuracy ? *a.test_accuracy > *b.test_accuracy : *a.test_loss < *b.test_loss;
}

const EpochRecord* best_of(const std::vector<EpochRecord>& history) {
  const EpochRecord* best = nullptr;
  for (const EpochRecord& r : history) {
    if (r.test_loss && (!best || is_better(r, *best))) best = &r;
  }
  return best;
}

int64_t evaluations_since_best(const std::vector<EpochRecord>& history) {
  const EpochRecord* best = best_of(history);
  if (!best) return 0;
  return std::count_if(best + 1, history.data() + history.size(),
                       [](const EpochRecord& r) { return r.test_loss.has_value(); });
}

}  // namespace crossbow
