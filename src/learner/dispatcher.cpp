#include "learner/dispatcher.h"

namespace crossbow {

std::optional<Work> BatchByBatch::next(int) {
  if (!retries_.empty()) return Work{.first = retries_.take(), .second_try = true};
  if (all_handed_out()) return {};
  const Work work{.first = next_};
  next_ = std::min(share_.next_from(next_ + 1), end_);
  return work;
}

void BatchByBatch::give_back(int, const Work&, const data::Batch& batch) {
  retries_.add(batch);
}

Fetched BatchByBatch::fetch(const Work& work, int) {
  data::BatchSource& from = work.second_try ? retries_ : source();
  return {&from.acquire(work.first), &from, work.first, 1, work.first * rows_};
}

}  // namespace crossbow
