#include "train/rate_scaling.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace crossbow {

double rate_factor(std::string_view scaling, int learners, std::optional<double> efficiency) {
  if (scaling == "none") return 1;
  if (scaling == "linear") return learners;
  if (scaling == "sqrt") return std::sqrt(learners);
  assert(scaling == "adascale");
  return efficiency ? learners * *efficiency : 1;
}

double RateFactor::at(int64_t samples) const {
  if (samples >= start + length) return to;
  const double way = static_cast<double>(samples - start) / static_cast<double>(length);
  return from + (to - from) * std::max(0.0, way);
}

}  // namespace crossbow
