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

/// Where the world survives that (comm/world.h), the ranks that are left may go on.
class RankLost : public Error {
 public:
  using Error::Error;
};

}  // namespace crossbow
