#include "learner/card.h"

#include <algorithm>

namespace crossbow {

double CardLane::book(double from, double length, double now) {
  std::erase_if(bookings, [&](const Booking& b) { return b.end <= now; });
  double begin = from;
  auto after = bookings.begin();
  for (; after != bookings.end() && after->begin < begin + length; ++after) {
    begin = std::max(begin, after->end);
  }
  if (length > 0) bookings.insert(after, {begin, begin + length});
  return begin;
}

}  // namespace crossbow
