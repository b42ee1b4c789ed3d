// How far two lists of numbers are apart.
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

namespace crossbow::testing {

/// |actual − expected| / |expected| in the Euclidean norm; absolute where `expected` is zero.
template <typename Number>
double relative_error(const std::vector<Number>& actual, const std::vector<Number>& expected) {
  if (actual.size() != expected.size()) return INFINITY;
  double difference = 0, norm = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    difference += (actual[i] - expected[i]) * (actual[i] - expected[i]);
    norm += expected[i] * expected[i];
  }
  return std::sqrt(norm > 0 ? difference / norm : difference);
}

}  // namespace crossbow::testing
