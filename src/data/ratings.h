// Ratings of items by users, a line each, as MovieLens has them: `user item rating`, between which
// there are tabs, blanks, commas, semicolons or `::`; what follows, such as a time, is ignored. The
// first line may be a header.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "data/source.h"

namespace crossbow::data {

struct Rating {
  int64_t user, item;  // as the file names them
  float value;
};

/// Appends the ratings of whole lines; lines with nothing in them are none. Throws Error, "line N:
/// reason", for what is no such line; the first line has the number `first_line`.
void parse_ratings(std::string_view text, int64_t first_line, std::vector<Rating>& ratings);

}  // namespace crossbow::data
