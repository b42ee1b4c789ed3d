// How many learners train on a device, and with how many threads each.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace crossbow {

struct Arrangement {
  int learners = 1;  // of each device
  int threads = 1;   // of each learner
  friend bool operator==(const Arrangement&, const Arrangement&) = default;
};

/// "2 learners of 1 thread".
std::string text_of(const Arrangement& arrangement);

/// What is worth trying on a device of that many cores, with growing numbers of learners. Threads
/// given: 1, 2, … learners of so many. Else all cores shared out: of arrangements with as many
/// learners the one with most threads.
std::vector<Arrangement> arrangements(int cores, std::optional<int> threads);

}  // namespace crossbow
