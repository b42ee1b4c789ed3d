// The loops over sparse rows of each instruction set against scalar formulas in double.
#include <algorithm>

#include "kernels/loops.h"

namespace crossbow {
namespace {

class SparseLoops : public LoopsTest {
 protected:
  static constexpr int64_t kRows = 5, kFeatures = 23;

  void SetUp() override {
    LoopsTest::SetUp();
    for (int32_t r = 0; r < kRows; ++r) {  // of which one is empty, and one begins behind a gap
      extents_.push_back(static_cast<int32_t>(columns_.size()));
      for (int32_t c = r; c < kFeatures && r != 2; c += r + 1) columns_.push_back(c);
      extents_.push_back(static_cast<int32_t>(columns_.size()));
      if (r == 3) columns_.push_back(-1000000);
    }
    values_ = random_values<float>(static_cast<int64_t>(columns_.size()), 1);
  }
  SparseNumbers numbers() const { return {values_.data(), columns_.data(), extents_.data()}; }
  /// Calls f(row, column, value).
  template <typename F>
  void for_each(F f) const {
    for (int64_t r = 0; r < kRows; ++r) {
      for (int32_t i = extents_[2 * r]; i < extents_[2 * r + 1]; ++i) {
        f(r, columns_[static_cast<size_t>(i)], double{values_[static_cast<size_t>(i)]});
      }
    }
  }

  std::vector<float> values_;
  std::vector<int32_t> columns_, extents_;
};

constexpr int64_t kOutputs[] = {1, 2, 3, 4, 5, 8, 10, 15, 16, 17, 31, 64, 67, 131};

TEST_P(SparseLoops, MultiplyRowsByWeights) {
  for (const int64_t outputs : kOutputs) {
    for (const bool with_bias : {false, true}) {
      const auto w = random_values<float>(kFeatures * outputs, 2);
      const auto bias = random_values<float>(outputs, 3);
      std::vector<double> expected(kRows * outputs), sizes(kRows * outputs);
      for (int64_t i = 0; i < kRows * outputs && with_bias; ++i) expected[i] = bias[i % outputs];
      for_each([&](int64_t r, int64_t c, double value) {
        for (int64_t o = 0; o < outputs; ++o) {
          expected[r * outputs + o] += value * w[c * outputs + o];
          sizes[r * outputs + o] += std::abs(value * w[c * outputs + o]);
        }
      });
      std::vector<float> y(kRows * outputs, 42);
      const SparseDenseArgs args{numbers(), outputs, w.data(), with_bias ? bias.data() : nullptr,
                                 y.data()};
      loops_->sparse_dense(args, 1, kRows);
      for (int64_t i = 0; i < outputs; ++i) EXPECT_EQ(y[i], 42) << "a row that was not asked for";
      loops_->sparse_dense(args, 0, 1);
      for (size_t i = 0; i < y.size(); ++i) {
        ASSERT_NEAR(y[i], expected[i], 1e-6 * (2 + sizes[i])) << outputs << " outputs, " << i;
      }
    }
  }
}

TEST_P(SparseLoops, AddRowsToWeights) {
  for (const int64_t outputs : kOutputs) {
    const auto dy = random_values<float>(kRows * outputs, 2);
    const auto before = random_values<float>(kFeatures * outputs, 3);
    const int64_t begin = outputs / 3, end = outputs - outputs / 5;
    std::vector<double> expected(before.begin(), before.end());
    for_each([&](int64_t r, int64_t c, double value) {
      for (int64_t o = begin; o < end; ++o)
        expected[c * outputs + o] -= 0.25 * value * dy[r * outputs + o];
    });
    std::vector<float> to = before;
    loops_->sparse_add({numbers(), kRows, outputs, dy.data(), -0.25f, to.data()}, begin, end);
    for (size_t i = 0; i < to.size(); ++i) {
      ASSERT_NEAR(to[i], expected[i], 1e-5) << outputs << " outputs, " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, SparseLoops, instruction_sets(), instruction_set);

}  // namespace
}  // namespace crossbow
