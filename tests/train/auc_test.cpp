#include "train/auc.h"

#include <gtest/gtest.h>

#include <vector>

#include "core/rng.h"

namespace crossbow {
namespace {

TEST(AreaUnderCurve, CountsPairsInTheRightOrder) {
  EXPECT_EQ(area_under_curve(std::vector<float>{1, 2, 3, 4}, std::vector<int32_t>{0, 0, 1, 1}), 1);
  EXPECT_EQ(area_under_curve(std::vector<float>{1, 2, 3, 4}, std::vector<int32_t>{1, 1, 0, 0}), 0);
  EXPECT_EQ(area_under_curve(std::vector<float>{4, 1, 3, 2}, std::vector<int32_t>{1, 0, 0, 1}),
            0.75);
}

TEST(AreaUnderCurve, ATieCountsHalf) {
  EXPECT_EQ(area_under_curve(std::vector<float>{7, 7, 7}, std::vector<int32_t>{0, 1, 0}), 0.5);
  EXPECT_EQ(area_under_curve(std::vector<float>{1, 1, 2}, std::vector<int32_t>{1, 0, 0}), 0.25);
}

TEST(AreaUnderCurve, NeedsBothClasses) {
  EXPECT_FALSE(area_under_curve(std::vector<float>{1, 2}, std::vector<int32_t>{1, 1}));
  EXPECT_FALSE(area_under_curve(std::vector<float>{1, 2}, std::vector<int32_t>{0, 0}));
  EXPECT_FALSE(area_under_curve({}, {}));
}

TEST(AreaUnderCurve, IsTheShareOfAllPairs) {
  Rng rng(1, Purpose::synthetic);
  std::vector<float> scores;
  std::vector<int32_t> labels;
  for (int i = 0; i < 300; ++i) {
    labels.push_back(static_cast<int32_t>(rng.below(2)));
    scores.push_back(static_cast<float>(rng.below(40) + 10 * static_cast<uint32_t>(labels.back())));
  }
  double wins = 0, pairs = 0;
  for (size_t a = 0; a < scores.size(); ++a) {
    for (size_t b = 0; b < scores.size(); ++b) {
      if (labels[a] != 1 || labels[b] != 0) continue;
      pairs += 1;
      wins += scores[a] > scores[b] ? 1 : scores[a] == scores[b] ? 0.5 : 0;
    }
  }
  EXPECT_NEAR(area_under_curve(scores, labels).value(), wins / pairs, 1e-12);
}

}  // namespace
}  // namespace crossbow
