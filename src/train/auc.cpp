#include "train/auc.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace crossbow {

std::optional<double> area_under_curve(std::span<const float> scores,
                                       std::span<const int32_t> labels) {
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return scores[a] < scores[b]; });
  double wins = 0, ones = 0, zeros = 0;
  for (size_t begin = 0, end; begin < order.size(); begin = end) {
    double tied_ones = 0, tied_zeros = 0;
    for (end = begin; end < order.size() && scores[order[end]] == scores[order[begin]]; ++end) {
      (labels[order[end]] == 1 ? tied_ones : tied_zeros) += 1;
    }
    wins += tied_ones * (zeros + tied_zeros / 2);
    ones += tied_ones;
    zeros += tied_zeros;
  }
  if (ones == 0 || zeros == 0) return {};
  return wins / (ones * zeros);
}

}  // namespace crossbow
