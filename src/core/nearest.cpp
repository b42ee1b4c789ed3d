#include "core/nearest.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace crossbow {

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

std::string_view nearest(std::string_view name, std::span<const std::string_view> candidates) {
  constexpr size_t kLongestName = 64;  // beyond it nothing was mistyped, and the table costs time
  if (name.size() > kLongestName) return {};
  std::string_view best;
  size_t best_distance = std::max<size_t>(2, name.size() / 2) + 1;
  for (const std::string_view candidate : candidates) {
    const size_t distance = edit_distance(name, candidate);
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string did_you_mean(std::string_view name, std::span<const std::string_view> candidates) {
  const std::string_view candidate = nearest(name, candidates);
  return candidate.empty() ? "" : fmt::format("; did you mean '{}'?", candidate);
}

}  // namespace crossbow
