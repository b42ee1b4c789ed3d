// Our GPU kernels, run by fibres, against the reference in double: every case of every op, and
// whole nets, whose convolutions and dense layers are the reference's.
#include "kernels/cuda/bias.h"
#include "kernels/cuda/grad_weights.h"
#include "support/against_reference.h"

namespace crossbow::testing {
namespace {

CompileOptions on_fibres(DType precision = DType::f32) {
  return on_device("fibres", precision);
}

class GpuKernels : public ::testing::TestWithParam<const Op*> {};

std::vector<const Op*> ops_of_gpus() {
  std::vector<const Op*> ops = ops_with_cases();
  std::erase_if(ops, [](const Op* op) { return !supports("fibres", op->name); });
  return ops;
}

TEST_P(GpuKernels, F32) {
  expect_cases_agree(*GetParam(), on_fibres());
}

TEST_P(GpuKernels, Bf16) {
  expect_cases_agree(*GetParam(), on_fibres(DType::bf16));
}

/// Fibres run in another order each time.
TEST_P(GpuKernels, SameBitsInAnyOrder) {
  expect_same_bits_again(*GetParam(), on_fibres());
}

INSTANTIATE_TEST_SUITE_P(Ops, GpuKernels, ::testing::ValuesIn(ops_of_gpus()), op_name);

TEST(GpuKernels, AreThereForEveryOp) {
  for (const Op* op : all_ops()) {
    const bool has = supports("ref", op->name) && !is_of_rows(*op);  // these are dense there
    EXPECT_EQ(supports("fibres", op->name), has) << op->name;
  }
}

/// Numbers of both signs that bf16 holds exactly.
std::vector<float> small_numbers(int64_t count) {
  std::vector<float> numbers(static_cast<size_t>(count));
  for (size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = static_cast<float>(i * i % 17) / 8 - 1;
  }
  return numbers;
}

/// One, several and many columns of channels, with packets and without; one slice of rows and many.
TEST(GpuKernels, AddABiasAndSumItsGradient) {
  for (const auto& [rows, channels] :
       {std::pair<int64_t, int64_t>{300, 37}, {7, 72}, {5000, 136}, {20000, 16}, {3, 1}}) {
    SCOPED_TRACE(fmt::format("{} rows, {} channels", rows, channels));
    const BiasShape shape{DType::f32, rows, channels};
    const std::vector<float> bias = small_numbers(channels);
    std::vector<float> y = small_numbers(rows * channels), sums(bias.size());
    std::vector<float> expected = y, expected_sums(bias.size());
    for (size_t i = 0; i < y.size(); ++i) {
      expected[i] = std::max(expected[i] + bias[i % bias.size()], 0.0f);
      expected_sums[i % bias.size()] += expected[i];
    }
    std::vector<std::byte> scratch(fibres::kBias.scratch_bytes(shape));
    fibres::kBias.add(shape, Activation::relu, y.data(), bias.data())(Step());
    EXPECT_EQ(y, expected);
    fibres::kBias.sum(shape, y.data(), sums.data(), scratch.data())(Step());
    EXPECT_EQ(sums, expected_sums);
  }
}

std::vector<float> plain_grad_weights(const GradWeightsShape& s, const std::vector<float>& x,
                                      const std::vector<float>& dy) {
  const auto& [rows, columns] = s.axes;
  std::vector<float> result;
  for (int64_t k = 0; k < s.y.channels; ++k) {
    for (int64_t i = 0; i < rows.kernel * columns.kernel * s.x.channels; ++i) {
      const int64_t c = i % s.x.channels, r = i / s.x.channels / columns.kernel,
                    column = i / s.x.channels % columns.kernel;
      double sum = 0;
      for (int64_t p = 0; p < s.images * s.y.rows * s.y.columns; ++p) {
        const int64_t image = p / s.y.columns / s.y.rows;
        const int64_t h = rows.start(p / s.y.columns % s.y.rows) + r * rows.dilation;
        const int64_t w = columns.start(p % s.y.columns) + column * columns.dilation;
        if (h < 0 || h >= s.x.rows || w < 0 || w >= s.x.columns) continue;
        const int64_t at = ((image * s.x.rows + h) * s.x.columns + w) * s.x.channels + c;
        sum += static_cast<double>(x[static_cast<size_t>(at)]) *
               static_cast<double>(dy[static_cast<size_t>(p * s.y.channels + k)]);
      }
      result.push_back(static_cast<float>(sum));
    }
  }
  return result;
}

TEST(GpuKernels, AddUpTheGradientOfWeights) {
  struct Window {
    int64_t images, rows, columns, channels, features, kernel, stride, dilation, padding;
  };
  for (const Window& w : {Window{2, 9, 11, 5, 3, 3, 1, 1, 1},
                          {3, 8, 8, 20, 18, 3, 2, 1, 1},
                          {2, 7, 40, 16, 16, 1, 2, 1, 0},
                          {1, 12, 70, 3, 4, 5, 1, 1, 2},
                          {1, 9, 9, 2, 2, 3, 1, 2, 2},
                          {2, 6, 5, 4, 4, 2, 2, 1, 0}}) {
    SCOPED_TRACE(fmt::format("{} channels, kernel {}", w.channels, w.kernel));
    const WindowAxis axis{w.kernel, w.stride, w.dilation, w.padding, w.padding};
    const GradWeightsShape shape{DType::f32,
                                 w.images,
                                 {w.rows, w.columns, w.channels},
                                 {axis.positions(w.rows), axis.positions(w.columns), w.features},
                                 {axis, axis}};
    const auto x = small_numbers(w.images * w.rows * w.columns * w.channels);
    const auto dy = small_numbers(w.images * shape.y.rows * shape.y.columns * w.features);
    const std::vector<float> expected = plain_grad_weights(shape, x, dy);
    std::vector<float> found(expected.size(), NAN);
    std::vector<std::byte> scratch(fibres::kGradWeights.scratch_bytes(shape).value());
    fibres::kGradWeights.make(shape, x.data(), dy.data(), found.data(), scratch.data())(Step());
    EXPECT_LE(relative_error(found, expected), 1e-6);
  }
}

class GpuNets : public ::testing::TestWithParam<const Model*> {};

TEST_P(GpuNets, AgreeWithTheReference) {
  expect_net_agrees(*GetParam(), on_fibres());
}

INSTANTIATE_TEST_SUITE_P(Models, GpuNets, ::testing::ValuesIn(image_models()), model_name);

}  // namespace
}  // namespace crossbow::testing
