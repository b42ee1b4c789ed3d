#include "learner/arrangement.h"

#include <algorithm>

#include "core/text.h"

namespace crossbow {

std::string text_of(const Arrangement& a) {
  return count(a.learners, "learner") + " of " + count(a.threads, "thread");
}

std::vector<Arrangement> arrangements(int cores, std::optional<int> threads) {
  std::vector<Arrangement> ladder;
  for (int learners = 1; learners <= std::max(1, cores / threads.value_or(1)); ++learners) {
    const int each = threads.value_or(std::max(1, cores / learners));
    // With as many threads each a larger number of learners leaves fewer cores idle.
    if (!threads && !ladder.empty() && ladder.back().threads == each) ladder.pop_back();
    ladder.push_back({learners, each});
  }
  return ladder;
}

}  // namespace crossbow
