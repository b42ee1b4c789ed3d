// Our GPU kernels, run by fibres, against the reference in double: every case of every op, and
// whole nets, whose convolutions and dense layers are the reference's.
#include "kernels/cuda/bias.h"
#include "kernels/cuda/few_rows.h"
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

TEST(GpuKernels, AddUpChannelsWithoutClusters) {
  for (const char* op : {"batch_norm", "scale_bias"}) {
    for (const DType precision : {DType::f32, DType::bf16}) {
      expect_cases_agree(find_op(op), on_device("fibres without clusters", precision));
    }
  }
}

/// Fibres run in another order each time.
TEST_P(GpuKernels, SameBitsInAnyOrder) {
  expect_same_bits_again(*GetParam(), on_fibres());
}

INSTANTIATE_TEST_SUITE_P(Ops, GpuKernels, ::testing::ValuesIn(ops_of_gpus()), op_name);

TEST(GpuKernels, AreThereForEveryOp) {
  for (const Op* op : all_ops()) {
    EXPECT_EQ(supports("fibres", op->name), supports("ref", op->name)) << op->name;
  }
}

/// Of a case that reads one parameter, which has these values; in bf16.
GraphRun run_on(std::string_view op, const Case& c, std::span<const double> values) {
  GraphRun run(joint_graph(find_op(op), c), on_fibres(DType::bf16));
  run.set(run.trained_names().at(0), values);
  return run;
}

TEST(GpuKernels, TellWhatIsNearlyRightInBf16) {
  const Case c{"", [](CaseBuilder& b) {
                 return softmax_cross_entropy(b.input({1, 3}), b.labels(1, 3));
               }};
  GraphRun run = run_on("softmax_cross_entropy", c, std::array{7.5, 0.0, 0.0});
  run.feed(1, std::vector<int32_t>{0});
  run.run();
  const double others = 1 / (std::exp(7.5) + 2);
  const std::vector<double> expected{-2 * others, others, others};
  EXPECT_LE(relative_error(run.gradients(), expected), 5e-3);
}

TEST(GpuKernels, CompareWithTargetsAsTheyAreInBf16) {
  const Case c{"", [](CaseBuilder& b) {
                 return mean_squared_error(b.input({1, 1}), b.targets({1, 1}));
               }};
  GraphRun run = run_on("mean_squared_error", c, std::array{2000.0});
  run.feed(1, std::vector<float>{2001});
  run.run();
  EXPECT_EQ(run.scalar("loss"), 1);
  EXPECT_EQ(run.gradients(), std::vector<double>{-2});
}

TEST(GpuKernels, NormaliseNothingWithAnInfiniteValue) {
  const Case c = find_op("batch_norm").cases().front();
  GraphRun run(joint_graph(find_op("batch_norm"), c), on_fibres());
  const std::string x = run.trained_names().at(0);
  std::vector<double> values = run.get(x);
  values[1] = INFINITY;  // not the channel's first, from which sums are taken
  run.set(x, values);
  run.run();
  const std::vector<double> y = run.values("y");
  for (size_t i = 0; i < 16; ++i) EXPECT_TRUE(std::isnan(y[i])) << i;  // of its channel
}

TEST(GpuKernels, TakeTheCpusWeightsOfSparseRowsAsTheyAre) {
  const Op& op = find_op("sparse_dense");
  const Graph graph = joint_graph(op, op.cases().front());
  CompileOptions options = on_fibres();
  options.parameters = Program::compile(graph, cpu())->parameters();
  const auto program = Program::compile(graph, options);
  for (const auto& kernel : program->kernel_infos()) {
    EXPECT_NE(kernel.kind, "reorder") << kernel.name;
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
    for (const Target target : {Target{false, false}, {true, false}, {true, true}}) {
      SCOPED_TRACE(fmt::format("{} rows, {} channels, clusters: {}, crowded: {}", rows, channels,
                               target.clusters, target.crowded));
      const BiasShape shape{DType::f32, rows, channels, target};
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

void expect_plain_grad_weights(GradWeightsShape shape) {
  const auto& [rows, columns] = shape.axes;
  shape.y.rows = rows.positions(shape.x.rows);
  shape.y.columns = columns.positions(shape.x.columns);
  const auto x = small_numbers(shape.images * shape.x.rows * shape.x.columns * shape.x.channels);
  const auto dy = small_numbers(shape.images * shape.y.rows * shape.y.columns * shape.y.channels);
  const std::vector<float> expected = plain_grad_weights(shape, x, dy);
  std::vector<std::byte> scratch(fibres::kGradWeights.scratch_bytes(shape).value());
  std::vector<float> found(expected.size(), NAN);
  if (shape.dtype == DType::f32) {
    fibres::kGradWeights.make(shape, x.data(), dy.data(), found.data(), scratch.data())(Step());
    EXPECT_LE(relative_error(found, expected), 1e-6);
    return;
  }
  const std::vector<bf16> x_bf16(x.begin(), x.end()), dy_bf16(dy.begin(), dy.end());
  std::vector<bf16> found_bf16(expected.size());
  fibres::kGradWeights.make(shape, x_bf16.data(), dy_bf16.data(), found_bf16.data(),
                            scratch.data())(Step());
  std::copy(found_bf16.begin(), found_bf16.end(), found.begin());
  EXPECT_LE(relative_error(found, expected), 5e-3);
}

TEST(GpuKernels, AddUpTheGradientOfWeights) {
  const WindowAxis three{3, 1, 1, 1, 1}, three_by_two{3, 2, 1, 1, 0}, pixel{1, 2, 1, 0, 0},
      five{5, 1, 1, 2, 2}, dilated{3, 1, 2, 2, 2}, two{2, 2, 1, 0, 0}, one{1, 1, 1, 0, 0};
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const GradWeightsShape& shape :
         {GradWeightsShape{dtype, 2, {9, 11, 5}, {0, 0, 3}, {three, three}},
          {dtype, 3, {8, 8, 20}, {0, 0, 18}, {three_by_two, three_by_two}},
          {dtype, 2, {7, 40, 16}, {0, 0, 16}, {pixel, pixel}},
          {dtype, 1, {12, 70, 20}, {0, 0, 4}, {five, five}},
          {dtype, 1, {9, 9, 2}, {0, 0, 2}, {dilated, dilated}},
          {dtype, 2, {6, 5, 4}, {0, 0, 4}, {two, two}},
          {dtype, 1, {5, 33, 3}, {0, 0, 17}, {one, three}},
          {dtype, 1, {9, 6, 3}, {0, 0, 5}, {five, three_by_two}}}) {
      SCOPED_TRACE(fmt::format("{} channels, {} x {}", shape.x.channels, shape.axes[0].kernel,
                               shape.axes[1].kernel));
      expect_plain_grad_weights(shape);
    }
  }
}

/// By a function of ours and by plain sums, of bf16 as well.
template <typename T>
void expect_plain_dense(const FewRowsShape& s, Activation activation, bool with_bias) {
  const auto numbers = [](int64_t count, int64_t from) {
    std::vector<T> all;
    for (int64_t i = 0; i < count; ++i) all.push_back(T(float((i * 7 + from) % 23 - 11) / 16));
    return all;
  };
  const auto x = numbers(s.rows * s.inputs, 1), weights = numbers(s.outputs * s.inputs, 5),
             dy = numbers(s.rows * s.outputs, 3);
  std::vector<float> bias = small_numbers(s.outputs);
  if (!with_bias) bias.assign(bias.size(), 0);
  const auto at = [](const auto& m, int64_t i) { return double(float(m[static_cast<size_t>(i)])); };
  std::vector<float> y, dx, dweights, dbias;
  for (int64_t r = 0; r < s.rows; ++r) {
    for (int64_t o = 0; o < s.outputs; ++o) {
      double sum = at(bias, o);
      for (int64_t c = 0; c < s.inputs; ++c) {
        sum += at(x, r * s.inputs + c) * at(weights, o * s.inputs + c);
      }
      y.push_back(static_cast<float>(activation == Activation::relu ? std::max(0., sum) : sum));
    }
    for (int64_t c = 0; c < s.inputs; ++c) {
      double sum = 0;
      for (int64_t o = 0; o < s.outputs; ++o) {
        sum += at(dy, r * s.outputs + o) * at(weights, o * s.inputs + c);
      }
      dx.push_back(static_cast<float>(sum));
    }
  }
  for (int64_t o = 0; o < s.outputs; ++o) {
    double of_bias = 0;
    for (int64_t r = 0; r < s.rows; ++r) of_bias += at(dy, r * s.outputs + o);
    dbias.push_back(static_cast<float>(of_bias));
    for (int64_t c = 0; c < s.inputs; ++c) {
      double sum = 0;
      for (int64_t r = 0; r < s.rows; ++r) {
        sum += at(dy, r * s.outputs + o) * at(x, r * s.inputs + c);
      }
      dweights.push_back(static_cast<float>(sum));
    }
  }
  const double most = std::is_same_v<T, float> ? 1e-6 : 5e-3;
  const auto expect = [&](const std::vector<T>& found, const std::vector<float>& expected) {
    EXPECT_LE(relative_error(std::vector<float>(found.begin(), found.end()), expected), most);
  };
  ASSERT_TRUE(fibres::kFewRows.is_made_for(s));
  std::vector<T> found_y(y.size(), T(NAN)), found_dx(dx.size(), T(NAN)),
      found_dweights(dweights.size(), T(NAN));
  std::vector<float> found_dbias(dbias.size(), NAN);
  fibres::kFewRows.forward(s, activation, x.data(), weights.data(),
                           with_bias ? bias.data() : nullptr, found_y.data())(Step());
  fibres::kFewRows.grad_input(s, dy.data(), weights.data(), found_dx.data())(Step());
  fibres::kFewRows.grad_weights(s, x.data(), dy.data(), found_dweights.data(),
                                with_bias ? found_dbias.data() : nullptr)(Step());
  expect(found_y, y);
  expect(found_dx, dx);
  expect(found_dweights, dweights);
  if (with_bias) {
    EXPECT_LE(relative_error(found_dbias, dbias), 1e-6);
  }
}

TEST(GpuKernels, ComputeDenseLayersOfFewRows) {
  for (const auto& [rows, inputs, outputs] : {std::array<int64_t, 3>{16, 20, 12},
                                              {1, 5, 3},
                                              {7, 44, 10},
                                              {17, 9, 40},
                                              {64, 8, 10},
                                              {33, 4, 6},
                                              {16, 1100, 1},
                                              {64, 1024, 33},
                                              {4, 8, 140}}) {
    SCOPED_TRACE(fmt::format("{} rows, {} inputs, {} outputs", rows, inputs, outputs));
    const Activation activation = rows % 2 == 0 ? Activation::relu : Activation::none;
    const bool with_bias = rows != 17;
    expect_plain_dense<float>({DType::f32, rows, inputs, outputs}, activation, with_bias);
    expect_plain_dense<bf16>({DType::bf16, rows, inputs, outputs}, activation, with_bias);
  }
}

/// More than a launch takes, of a piece of a block and of several.
TEST(GpuKernels, CastEachTensor) {
  std::vector<Layout> f32, bf16s;
  std::vector<std::vector<float>> from;
  std::vector<std::vector<bf16>> between;
  std::vector<std::vector<float>> to;
  Operands down, up;
  for (int i = 0; i < 130; ++i) {
    const int64_t size = std::array{1, 2047, 2048, 2049, 5000}[static_cast<size_t>(i) % 5];
    f32.push_back(Layout::plain({size}, DType::f32));
    bf16s.push_back(Layout::plain({size}, DType::bf16));
    from.push_back(small_numbers(size));
    between.emplace_back(from.back().size());
    to.emplace_back(from.back().size());
  }
  for (size_t i = 0; i < from.size(); ++i) {
    down.inputs.push_back(from[i].data());
    down.outputs.push_back(between[i].data());
    up.inputs.push_back(between[i].data());
    up.outputs.push_back(to[i].data());
  }
  const CastsFn casts = KernelRegistry::of("fibres").casts();
  casts(f32, bf16s).bind(down)(Step());
  casts(bf16s, f32).bind(up)(Step());
  EXPECT_EQ(to, from);
}

class GpuNets : public ::testing::TestWithParam<const Model*> {};

TEST_P(GpuNets, AgreeWithTheReference) {
  expect_net_agrees(*GetParam(), on_fibres());
}

INSTANTIATE_TEST_SUITE_P(Models, GpuNets, ::testing::ValuesIn(image_models()), model_name);

}  // namespace
}  // namespace crossbow::testing
