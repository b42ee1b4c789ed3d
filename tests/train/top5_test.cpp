// How often the class is among the five likeliest.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "core/rng.h"
#include "data/memory.h"
#include "train/session.h"
#include "train/train.h"

namespace crossbow {
namespace {

constexpr int64_t kRows = 150, kFeatures = 12;

std::shared_ptr<const data::Dataset> set_of(int64_t classes) {
  std::vector<float> values(static_cast<size_t>(kRows * kFeatures));
  Rng rng(1, Purpose::synthetic);
  for (float& v : values) v = rng.gaussian();
  std::vector<int32_t> labels;
  for (int64_t i = 0; i < kRows; ++i) labels.push_back(static_cast<int32_t>(i % classes));
  const data::Samples samples{values, labels};
  return data::from_memory({.image = {kFeatures, 1, 1}, .classes = classes}, samples, samples);
}

TrainOptions options_for(int64_t classes) {
  TrainOptions o;
  o.model = "mlp:layers=1,width=32";
  o.dataset = set_of(classes);
  o.sync = "none";
  o.epochs = 1;
  o.lr = 1e-20;  // the weights stay
  return o;
}

TEST(Top5, IsCountedWithAHundredClassesOrMore) {
  TrainOptions options = options_for(100);
  const data::Split& test = *options.dataset->test;
  SessionOptions same;
  same.dataset = options.dataset;
  Session session("mlp:layers=1,width=32", same);
  std::vector<float> values;
  for (int64_t i = 0; i < kRows; ++i) {
    const auto* const row = std::get<const float*>(test.sample(i, nullptr));
    values.insert(values.end(), row, row + kFeatures);
  }
  const std::vector<float> logits = session.predict(values);
  std::vector<std::vector<float>> weights;
  for (const SessionTensor& tensor : session.tensors()) weights.push_back(session.get(tensor.name));
  for (size_t t = 0; t < weights.size(); ++t) {
    options.first_weights[session.tensors()[t].name] = weights[t];
  }

  int top5 = 0, right = 0;
  for (int64_t i = 0; i < kRows; ++i) {
    std::vector<int32_t> order(100);
    std::iota(order.begin(), order.end(), 0);
    std::ranges::sort(order, std::greater(),
                      [&](int32_t c) { return logits[static_cast<size_t>(100 * i + c)]; });
    right += order[0] == test.label(i);
    top5 += std::find(order.begin(), order.begin() + 5, test.label(i)) != order.begin() + 5;
  }
  const TrainResult result = train(options);
  EXPECT_GT(top5, right);
  ASSERT_TRUE(result.final_test_top5);
  EXPECT_DOUBLE_EQ(*result.final_test_top5, top5 / double{kRows});
  EXPECT_DOUBLE_EQ(*result.final_test_accuracy, right / double{kRows});
  EXPECT_EQ(result.history.back().test_top5, result.final_test_top5);
}

TEST(Top5, IsNotCountedWithFewer) {
  EXPECT_FALSE(train(options_for(99)).final_test_top5);
}

}  // namespace
}  // namespace crossbow
