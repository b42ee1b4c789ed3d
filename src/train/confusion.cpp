#include "train/confusion.h"

#include <algorithm>
#include <cmath>

namespace crossbow {

int64_t Confusion::samples(int64_t actual) const {
  int64_t sum = 0;
  for (int64_t p = 0; p < classes_; ++p) sum += count(actual, p);
  return sum;
}

double Confusion::accuracy(int64_t actual) const {
  const int64_t n = samples(actual);
  return n > 0 ? static_cast<double>(count(actual, actual)) / static_cast<double>(n) : NAN;
}

std::vector<int64_t> Confusion::worst_first() const {
  std::vector<std::pair<double, int64_t>> found;
  for (int64_t c = 0; c < classes_; ++c) {
    if (samples(c) > 0) found.emplace_back(accuracy(c), c);
  }
  std::sort(found.begin(), found.end());
  std::vector<int64_t> order;
  for (const auto& [accuracy, c] : found) order.push_back(c);
  return order;
}

std::vector<Confusion::Mistake> Confusion::mistakes() const {
  std::vector<Mistake> found;
  for (int64_t a = 0; a < classes_; ++a) {
    for (int64_t p = 0; p < classes_; ++p) {
      if (a != p && count(a, p) > 0) found.push_back({a, p, count(a, p)});
    }
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const Mistake& a, const Mistake& b) { return a.count > b.count; });
  return found;
}

int64_t predicted_class(std::span<const double> logits) {
  return std::max_element(logits.begin(), logits.end()) - logits.begin();
}

}  // namespace crossbow
