#include <cmath>
#include <cstdlib>

#include "data/ratings.h"
#include "fuzz/target.h"

FUZZ_TARGET(ratings, bytes) {
  std::vector<crossbow::data::Rating> ratings;
  const std::string text(bytes.begin(), bytes.end());
  crossbow::data::parse_ratings(text, 1, ratings);
  for (const crossbow::data::Rating& r : ratings) {
    if (r.user < 0 || r.item < 0 || !std::isfinite(r.value)) std::abort();
  }
}
