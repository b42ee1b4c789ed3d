// What ends calls that other ranks take part in, once one of these is no more.
#pragma once

#include <string>

#include "core/exceptions.h"

namespace crossbow {

/// A rank that there was.
struct LostRank {
  int rank;  // its number when it was lost
  std::string host;
};

/// After losses, where a run is not to go on with so few.
class TooFewRanks : public Error {
 public:
  TooFewRanks(const std::string& sentence, bool are_all) : Error(sentence), are_all(are_all) {}
  const bool are_all;  // else others, unheard, may be enough and go on
};

/// Where the world survives that (comm/world.h), the ranks that are left may go on.
class RankLost : public Error {
 public:
  using Error::Error;
};

}  // namespace crossbow
