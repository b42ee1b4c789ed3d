// How often the class is among the five likeliest.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "core/rng.h"
#include "data/memory.h"
#include "train/session.h"

namespace crossbow {
namespace {

constexpr int64_t kSamples = 150, kFeatures = 12;

std::shared_ptr<const data::Dataset> set_of(int64_t classes) {
  std::vector<float> values(static_cast<size_t>(kSamples * kFeatures));
  Rng rng(1, Purpose::synthetic);
  for (float& v : values) v = rng.gaussian();
  std::vector<int32_t> labels;
  for (int64_t i = 0; i < kSamples; ++i) labels.push_back(static_cast<int32_t>(i % classes));
  const data::Samples samples{values, labels};
  return data::from_memory({.image = {kFeatures, 1, 1}, .classes = classes}, samples, samples);
}

TEST(Top5, IsCountedWithAHundredClassesOrMore) {
  const auto set = set_of(100);
  SessionOptions options;
  options.dataset = set;
  options.lr = 0.05;
  Session session("logistic", options);
  for (int i = 0; i < 20; ++i) session.step();
  std::vector<float> values;
  for (int64_t i = 0; i < kSamples; ++i) {
    const auto* const row = std::get<const float*>(set->test->sample(i, nullptr));
    values.insert(values.end(), row, row + kFeatures);
  }
  const std::vector<float> logits = session.predict(values);
  int top5 = 0, right = 0;
  for (int64_t i = 0; i < kSamples; ++i) {
    std::vector<int32_t> order(100);
    std::iota(order.begin(), order.end(), 0);
    std::ranges::sort(order, std::greater(),
                      [&](int32_t c) { return logits[static_cast<size_t>(100 * i + c)]; });
    const int32_t label = set->test->label(i);
    right += order[0] == label;
    top5 += std::find(order.begin(), order.begin() + 5, label) != order.begin() + 5;
  }
  const Evaluation test = session.evaluate();
  ASSERT_TRUE(test.top5);
  EXPECT_GT(top5, right);
  EXPECT_DOUBLE_EQ(*test.top5, top5 / double{kSamples});
}

TEST(Top5, IsNotCountedWithFewer) {
  SessionOptions options;
  options.dataset = set_of(99);
  options.lr = 0.05;
  Session session("logistic", options);
  EXPECT_FALSE(session.evaluate().top5);
}

}  // namespace
}  // namespace crossbow
