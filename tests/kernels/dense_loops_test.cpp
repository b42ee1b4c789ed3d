// The forward pass of dense layers by each instruction set, on weights in 16i64o blocks, against
// sums in double.
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

INSTANTIATE_TEST_SUITE_P(InstructionSets, DenseLoops, instruction_sets(), instruction_set);

}  // namespace
}  // namespace crossbow
