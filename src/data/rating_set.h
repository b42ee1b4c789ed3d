// Sets of ratings: a sample is a user and an item, as a sparse row with a 1 in the column of
// either, and its label is the rating.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/dataset.h"

namespace crossbow::data {

/// Of one part.
struct RatedPairs {
  /// The user's column, and the item's, which follow those of all users.
  std::vector<std::array<int32_t, 2>> columns;
  std::vector<float> ratings;  // one a pair
};

std::shared_ptr<Dataset> rating_set(const std::string& name, int64_t users, int64_t items,
                                    RatedPairs train, RatedPairs test, std::string note);

}  // namespace crossbow::data
