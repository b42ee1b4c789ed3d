#include "core/nearest.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace crossbow {

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before, row(b.size() + 1), next(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    next[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      next[j + 1] = std::min({row[j] + (a[i] != b[j]), next[j] + 1, row[j + 1] + 1});
      if (i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j]) {
        next[j + 1] = std::min(next[j + 1], before[j - 1] + 1);
      }
    }
    before = row;
    row = next;
  }
  return row.back();
}

std::string_view nearest(std::string_view name, std::span<const std::string_view> candidates) {
  constexpr size_t kLongestName = 64;  // beyond it nothing was mistyped, and the table costs time
  constexpr size_t kShortestStart = 3;
  if (name.size() > kLongestName) return {};
  const size_t dashes = std::min(name.find_first_not_of('-'), name.size());
  const size_t letters = name.size() - dashes;
  std::string_view best;
  size_t best_distance = std::max<size_t>(1, letters / 3) + 1;
  for (const std::string_view candidate : candidates) {
    const size_t distance = edit_distance(name, candidate);
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  if (!best.empty() || letters < kShortestStart) return best;
  const auto longer = [&](std::string_view candidate) { return candidate.starts_with(name); };
  const auto first = std::find_if(candidates.begin(), candidates.end(), longer);
  return first == candidates.end() ? std::string_view() : *first;
}

std::string did_you_mean(std::string_view name, std::span<const std::string_view> candidates) {
  const std::string_view candidate = nearest(name, candidates);
  return candidate.empty() ? "" : fmt::format("; did you mean '{}'?", candidate);
}

}  // namespace crossbow
