// Dense layers by each instruction set, on weights in 16i64o blocks: the forward pass and the
// gradient of the weights against sums in double, and steps that follow upon the gradient at once
// against passes over memory.
#include <algorithm>
#include <limits>

#include "kernels/loops.h"

namespace crossbow {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// Weights, of which o and i are outputs and inputs, in blocks that are padded by zeros.
struct Blocks {
  Blocks(const std::vector<float>& plain, int64_t outputs, int64_t inputs)
      : stride((inputs + 15) / 16 * 16 * 64), values((outputs + 63) / 64 * stride) {
    for (int64_t o = 0; o < outputs; ++o) {
      for (int64_t i = 0; i < inputs; ++i) {
        values[o / 64 * stride + i * 64 + o % 64] = plain[o * inputs + i];
      }
    }
  }
  int64_t stride;
  std::vector<float> values;
};

class DenseLoops : public LoopsTest {
 protected:
  struct Sizes {
    int64_t rows, inputs, outputs;
  };
  struct Sum {
    double value = 0, size = 0;  // size: of the magnitudes of what was added up
  };

  void make(Sizes s, float low = -1) {
    sizes_ = s;
    x_ = random_values<float>(s.rows * s.inputs, 1, low, 1);
    w_ = random_values<float>(s.outputs * s.inputs, 2, -1, 1);
    bias_ = random_values<float>(s.outputs, 3, -1, 1);
  }
  Sum expected(int64_t row, int64_t output, bool with_bias) const {
    Sum sum;
    if (with_bias) sum = {bias_[output], std::abs(bias_[output])};
    for (int64_t i = 0; i < sizes_.inputs; ++i) {
      const double product =
          double{x_[row * sizes_.inputs + i]} * double{w_[output * sizes_.inputs + i]};
      sum.value += product;
      sum.size += std::abs(product);
    }
    return sum;
  }
  /// y, and one value behind it; rows that are not computed, and that value, are 42.
  std::vector<float> computed(bool with_bias, float least, float most, int64_t begin,
                              int64_t end) const {
    const Blocks w(w_, sizes_.outputs, sizes_.inputs);
    std::vector<float> y(sizes_.rows * sizes_.outputs + 1, 42);
    const DenseArgs args{sizes_.rows,
                         sizes_.inputs,
                         sizes_.outputs,
                         x_.data(),
                         with_bias ? bias_.data() : nullptr,
                         y.data(),
                         least,
                         most};
    for (int64_t o = 0; o < sizes_.outputs; o += 64) {
      loops_->dense(args, w.values.data() + o / 64 * w.stride, o, begin, end);
    }
    return y;
  }
  double relative_error(const std::vector<float>& y) const {
    double difference = 0, norm = 0;
    for (int64_t r = 0; r < sizes_.rows; ++r) {
      for (int64_t o = 0; o < sizes_.outputs; ++o) {
        const double value = expected(r, o, false).value;
        difference += std::pow(y[r * sizes_.outputs + o] - value, 2);
        norm += value * value;
      }
    }
    return std::sqrt(difference / norm);
  }

  Sizes sizes_{};
  std::vector<float> x_, w_, bias_;
};

TEST_P(DenseLoops, MultiplyRowsByWeights) {
  for (const int64_t rows : {1, 2, 3, 4, 5, 6, 7, 11, 12, 16}) {
    for (const int64_t inputs : {1, 15, 16, 127, 128, 129, 255, 256, 257, 400}) {
      for (const int64_t outputs : {1, 5, 17, 63, 64, 65, 100, 128}) {
        make({rows, inputs, outputs});
        for (const bool with_bias : {false, true}) {
          const auto y = computed(with_bias, -kInfinity, kInfinity, 0, rows);
          for (int64_t i = 0; i < rows * outputs; ++i) {
            const Sum sum = expected(i / outputs, i % outputs, with_bias);
            ASSERT_NEAR(y[i], sum.value, 1e-6 * sum.size)
                << rows << " rows, " << inputs << " inputs, " << outputs << " outputs, " << i;
          }
          EXPECT_EQ(y.back(), 42) << "wrote past the end";
        }
      }
    }
  }
}

TEST_P(DenseLoops, ComputeTheRowsThatAreAskedForToTheSameBits) {
  make({13, 300, 70});
  const auto all = computed(true, -kInfinity, kInfinity, 0, 13);
  const auto some = computed(true, -kInfinity, kInfinity, 5, 12);
  for (int64_t i = 0; i < 13 * 70; ++i) {
    const bool asked = i / 70 >= 5 && i / 70 < 12;
    ASSERT_EQ(some[i], asked ? all[i] : 42) << i;
  }
}

TEST_P(DenseLoops, ClampTheWholeSum) {
  make({7, 300, 70});
  const auto plain = computed(true, -kInfinity, kInfinity, 0, 7);
  const auto relu6 = computed(true, 0, 6, 0, 7);
  for (size_t i = 0; i + 1 < plain.size(); ++i) {
    ASSERT_EQ(relu6[i], std::clamp(plain[i], 0.0f, 6.0f)) << i;
  }
  EXPECT_GT(std::ranges::count(relu6, 6.0f), 0);
  EXPECT_GT(std::ranges::count(relu6, 0.0f), 0);
}

TEST_P(DenseLoops, LetNaNThrough) {
  make({1, 200, 3});
  x_[150] = std::numeric_limits<float>::quiet_NaN();
  for (const float y : computed(true, 0, 6, 0, 1)) EXPECT_TRUE(std::isnan(y) || y == 42) << y;
}

TEST_P(DenseLoops, AddInParts) {
  make({4, 2048, 64}, 0.2f);
  EXPECT_LE(relative_error(computed(false, -kInfinity, kInfinity, 0, 4)), 3.5e-7);
  std::vector<float> one_after_the_other(4 * 64 + 1);
  for (int64_t i = 0; i < 4 * 64; ++i) {
    float& sum = one_after_the_other[i];
    for (int64_t c = 0; c < 2048; ++c) sum += x_[i / 64 * 2048 + c] * w_[i % 64 * 2048 + c];
  }
  EXPECT_GE(relative_error(one_after_the_other), 4e-7);
}

/// The gradient of two blocks of weights, of the last 32 of 48 inputs and the last 64 of 128
/// outputs.
class DenseGradLoops : public LoopsTest {
 protected:
  static constexpr int64_t kInputs = 48, kOutputs = 128, kBlocks = 2, kBlock = 16 * 64;
  static constexpr int64_t kBegin = 3 * kBlock, kEnd = kBegin + kBlocks * kBlock;

  void SetUp() override {
    LoopsTest::SetUp();
    uint32_t stream = 0;
    for (std::vector<float>* all : {&weights_, &other_, &more_})
      *all = random_values<float>(kEnd, ++stream);
  }
  void make(int64_t rows) {
    x_ = random_values<float>(rows * kInputs, 4);
    dy_ = random_values<float>(rows * kOutputs, 5);
    args_ = {rows, kInputs, kOutputs, kBlocks, x_.data() + 16, dy_.data() + 64};
  }
  std::vector<float> gradient() const {
    std::vector<float> dw(kEnd);
    loops_->dense_grad_weights(args_, dw.data() + kBegin);
    return dw;
  }

  std::vector<float> weights_, other_, more_, x_, dy_;
  DenseGradArgs args_{};
};

TEST_P(DenseGradLoops, AddUpRows) {
  for (const int64_t rows : {1, 2, 3, 16, 61, 256}) {
    make(rows);
    const std::vector<float> dw = gradient();
    for (int64_t i = 0; i < 16 * kBlocks; ++i) {
      for (int64_t o = 0; o < 64; ++o) {
        double sum = 0, size = 0;
        for (int64_t r = 0; r < rows; ++r) {
          const double product =
              double{args_.x[r * kInputs + i]} * double{args_.dy[r * kOutputs + o]};
          sum += product;
          size += std::abs(product);
        }
        ASSERT_NEAR(dw[kBegin + i * 64 + o], sum, 1e-6 * size)
            << rows << " rows, " << i << ", " << o;
      }
    }
  }
}

TEST_P(DenseGradLoops, AddUpColumns) {
  make(21);
  std::vector<float> db(kOutputs + 1, 42);
  loops_->column_sums(dy_.data(), 21, kOutputs, db.data());
  for (int64_t o = 0; o < kOutputs; ++o) {
    double sum = 0;
    for (int64_t r = 0; r < 21; ++r) sum += double{dy_[r * kOutputs + o]};
    ASSERT_NEAR(db[o], sum, 1e-5) << o;
  }
  EXPECT_EQ(db.back(), 42) << "wrote past the end";
}

TEST_P(DenseGradLoops, StepAsAPassOverTheGradientDoes) {
  make(16);
  const std::vector<float> dw = gradient();
  for (const bool nesterov : {false, true}) {
    for (const bool with_velocity : {false, true}) {
      for (const bool with_central : {false, true}) {
        const SgdArgs args{0.1f, with_velocity ? 0.9f : 0, 0.01f,
                           1,    with_central ? 0.3f : 0,  nesterov};
        const auto stepped = [&](auto step) {
          std::vector<float> velocity = other_, next = weights_;
          step(SgdArrays{weights_.data(), dw.data(), with_velocity ? velocity.data() : nullptr,
                         with_central ? more_.data() : nullptr, next.data()});
          return std::pair(velocity, next);
        };
        EXPECT_EQ(stepped([&](SgdArrays a) {
                    a.gradient = nullptr;
                    loops_->dense_sgd_step(args_, args, a, kBegin);
                  }),
                  stepped([&](const SgdArrays& a) { loops_->sgd_step(args, a, kBegin, kEnd); }));
      }
    }
  }
}

TEST_P(DenseGradLoops, StepOnSharedWeightsAsAPassOverTheGradientDoes) {
  make(16);
  const std::vector<float> dw = gradient();
  for (const bool overwrites : {false, true}) {
    for (const float decay : {0.0f, 0.01f}) {
      for (const bool takes : {false, true}) {
        const SgdArgs args{0.1f, 0, decay, 1, 0, false};
        const auto stepped = [&](auto step) {
          std::vector<float> shared = other_, next = more_;
          step(HogwildArrays{weights_.data(), dw.data(), shared.data(),
                             takes ? next.data() : nullptr, overwrites});
          return std::pair(shared, next);
        };
        const auto result = stepped([&](HogwildArrays a) {
          a.gradient = nullptr;
          loops_->dense_hogwild_step(args_, args, a, kBegin);
        });
        EXPECT_EQ(result, stepped([&](const HogwildArrays& a) {
                    loops_->hogwild_step(args, a, kBegin, kEnd);
                  }));
        EXPECT_NE(result.first, other_);
        EXPECT_EQ(result.second != more_, takes);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, DenseGradLoops, instruction_sets(), instruction_set);
INSTANTIATE_TEST_SUITE_P(InstructionSets, DenseLoops, instruction_sets(), instruction_set);

}  // namespace
}  // namespace crossbow
