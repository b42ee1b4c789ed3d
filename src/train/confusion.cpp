#include "train/confusion.h"

#include <algorithm>
#include <cmath>

namespace crossbow {

int64_t Confusion::count(int64_t actual, int64_t predicted) const {
  const auto found = counts_.find({actual, predicted});
  return found == counts_.end() ? 0 : found->second;
}

int64_t Confusion::most() const {
  int64_t most = 0;
  for (const auto& [pair, count] : counts_) most = std::max(most, count);
  return most;
}

double Confusion::accuracy(int64_t actual) const {
  const int64_t n = samples(actual);
  return n > 0 ? static_cast<double>(count(actual, actual)) / static_cast<double>(n) : NAN;
}

std::vector<int64_t> Confusion::worst_first() const {
  std::vector<std::pair<double, int64_t>> found;
  for (int64_t c = 0; c < classes(); ++c) {
    if (samples(c) > 0) found.emplace_back(accuracy(c), c);
  }
  std::sort(found.begin(), found.end());
  std::vector<int64_t> order;
  for (const auto& [accuracy, c] : found) order.push_back(c);
  return order;
}

std::vector<Confusion::Mistake> Confusion::mistakes() const {
  std::vector<Mistake> found;
  for (const auto& [pair, count] : counts_) {
    if (pair.first != pair.second) found.push_back({pair.first, pair.second, count});
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const Mistake& a, const Mistake& b) { return a.count > b.count; });
  return found;
}

int64_t predicted_class(std::span<const double> logits) {
  return std::max_element(logits.begin(), logits.end()) - logits.begin();
}

}  // namespace crossbow
