// A network card of a simulated node.
#pragma once

#include <vector>

namespace crossbow {

/// One direction of a card: it carries one message at a time. Who asks first is not always who
/// sends first, since some ask for a later time, so each takes the first gap that is long enough.
/// A plain value.
struct CardLane {
  struct Booking {
    double begin = 0, end = 0;
    bool operator==(const Booking&) const = default;
  };
  std::vector<Booking> bookings;  // ascending, not overlapping

  /// When a message that takes so long, and is there at `from`, begins. Nobody will ask for a time
  /// before `now` any more.
  double book(double from, double length, double now);
  bool operator==(const CardLane&) const = default;
};

struct Card {
  CardLane out, in;
  bool operator==(const Card&) const = default;
};

}  // namespace crossbow
