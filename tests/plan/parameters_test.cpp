// How a replica's flat buffers are laid out, filled and read.
#include <algorithm>

#include "support/graph_testing.h"

namespace crossbow::testing {
namespace {

/// Slots whose layouts differ in padding: 5 channels in blocks of 16, plain and channels last.
ParameterLayout sample_layout(DType dtype) {
  ParameterLayout layout;
  layout.dtype = dtype;
  layout.add_parameter("blocked", Layout::channel_blocked({4, 5, 3, 3}, dtype, 16),
                       Initialiser::gaussian(0, 1));
  layout.add_parameter("plain", Layout::plain({7}, dtype), Initialiser::uniform(-1, 1));
  layout.add_parameter("channels last", Layout::channels_last({2, 3, 5, 5}, dtype),
                       Initialiser::he());
  layout.add_state("state", Layout::plain({3}, dtype), 0.5f);
  return layout;
}

std::vector<double> read(const ParameterLayout& layout, const Replica& replica,
                         const std::string& name) {
  const ParameterLayout::Slot& slot = *layout.find(name);
  const Buffer& buffer = name == "state" ? replica.states : replica.parameters;
  std::vector<double> values(slot.layout.shape.elements());
  read_tensor(slot.layout, buffer.data() + slot.offset * size_of(layout.dtype),
              std::span<double>(values));
  return values;
}

TEST(ParameterLayout, SlotsAreAlignedAndApart) {
  const ParameterLayout layout = sample_layout(DType::f32);
  int64_t end = 0;
  for (const auto& slot : layout.parameters) {
    EXPECT_EQ(slot.offset * size_of(DType::f32) % 64, 0u) << slot.name;
    EXPECT_GE(slot.offset, end) << slot.name;
    end = slot.offset + slot.layout.elements();
  }
  EXPECT_GE(layout.parameter_elements, end);
  EXPECT_EQ(layout.trained(), 4 * 5 * 9 + 7 + 2 * 3 * 25);
  EXPECT_EQ(layout.find("state"), &layout.states[0]);
  EXPECT_EQ(layout.find("nothing"), nullptr);
}

/// What decays and what does not, up to the next slot of the other kind.
TEST(ParameterLayout, PiecesOfAnOptimizerDecayAsAWholeOrNotAtAll) {
  const ParameterLayout layout = sample_layout(DType::f32);
  const int64_t vector = layout.parameters[1].offset, after = layout.parameters[2].offset;
  const int64_t end = layout.parameter_elements;
  struct Expected {
    int64_t first, elements;
    bool decay;
  };
  const auto expect = [&](const Optimizer& optimizer, int64_t largest,
                          const std::vector<Expected>& expected) {
    const auto pieces = layout.pieces(optimizer, largest);
    ASSERT_EQ(pieces.size(), expected.size());
    for (size_t i = 0; i < pieces.size(); ++i) {
      SCOPED_TRACE(i);
      EXPECT_EQ(pieces[i].first, expected[i].first);
      EXPECT_EQ(pieces[i].elements, expected[i].elements);
      EXPECT_EQ(pieces[i].decay, expected[i].decay);
    }
  };
  const Optimizer all = make_sgd({.weight_decay = 0.1});
  const Optimizer weights = make_sgd({.weight_decay = {0.1, /*of_vectors=*/false}});
  expect(all, 1 << 20, {{0, end, true}});
  expect(all, 512, {{0, 512, true}, {512, end - 512, true}});
  expect(weights, 1 << 20,
         {{0, vector, true}, {vector, after - vector, false}, {after, end - after, true}});
  expect(weights, 512,
         {{0, 512, true},
          {512, vector - 512, true},
          {vector, after - vector, false},
          {after, end - after, true}});
  const UpdateRule by_parameter{"whole", /*by_parameter=*/true};
  expect({&by_parameter, {}, {0.1, /*of_vectors=*/false}}, 16,
         {{0, vector, true}, {vector, after - vector, false}, {after, end - after, true}});

  ParameterLayout net;
  for (const char* name : {"a", "b", "c"}) {
    net.add_parameter(name, Layout::plain({100, 2}, DType::f32), {});
  }
  const auto merged = net.pieces(weights, 400);
  ASSERT_EQ(merged.size(), 2u);
  EXPECT_EQ(merged[0].elements, 400);
  EXPECT_EQ(merged[1].first, 400);
  EXPECT_EQ(merged[1].elements, net.parameter_elements - 400);
}

/// Two vectors between matrices, which are one piece.
TEST(ParameterLayout, PiecesOfAnyLengthCoverAll) {
  ParameterLayout layout;
  layout.dtype = DType::f32;
  for (const Shape shape : {Shape{4, 16}, {16}, {16}, {16, 4}}) {
    layout.add_parameter(std::to_string(layout.parameters.size()), Layout::plain(shape, DType::f32),
                         Initialiser::uniform(-1, 1));
  }
  const auto pieces =
      layout.pieces(make_sgd({.weight_decay = {0.1, /*of_vectors=*/false}}), Device::kWhole);
  ASSERT_EQ(pieces.size(), 3u);
  int64_t end = 0;
  for (const auto& piece : pieces) {
    EXPECT_EQ(piece.first, end);
    end += piece.elements;
  }
  EXPECT_EQ(end, layout.parameter_elements);
}

TEST(Initialise, DependsOnSeedAndIndexButNotOnLayoutOrPrecision) {
  const ParameterLayout blocked = sample_layout(DType::f32), wide = sample_layout(DType::f64);
  ParameterLayout plain = blocked;
  plain.parameters[0].layout = Layout::plain({4, 5, 3, 3}, DType::f32);
  Replica a(blocked), b(wide), c(plain), other(blocked);
  initialise(blocked, a, 1);
  initialise(wide, b, 1);
  initialise(plain, c, 1);
  initialise(blocked, other, 2);
  for (const char* name : {"blocked", "plain", "channels last"}) {
    EXPECT_EQ(read(blocked, a, name), read(wide, b, name)) << name;
    EXPECT_EQ(read(blocked, a, name), read(plain, c, name)) << name;
    EXPECT_NE(read(blocked, a, name), read(blocked, other, name)) << name;
  }
  EXPECT_EQ(read(blocked, a, "state"), std::vector<double>(3, 0.5));
}

TEST(Initialise, KeepsPaddingZero) {
  const ParameterLayout layout = sample_layout(DType::f32);
  Replica replica(layout);
  initialise(layout, replica, 1);
  const float* values = replica.parameters.as<float>();
  const auto non_zero = [&](int64_t from, int64_t to) {
    return std::count_if(values + from, values + to, [](float x) { return x != 0; });
  };
  EXPECT_EQ(non_zero(0, layout.parameter_elements), layout.trained());
}

struct Moments {
  double mean, deviation, largest;
};

Moments moments_of(const Initialiser& initialiser, const Shape& shape) {
  ParameterLayout layout;
  layout.add_parameter("w", Layout::plain(shape, DType::f32), initialiser);
  Replica replica(layout);
  initialise(layout, replica, 1);
  const std::vector<double> values = read(layout, replica, "w");
  double sum = 0, squares = 0, largest = 0;
  for (double v : values) {
    sum += v;
    squares += v * v;
    largest = std::max(largest, std::abs(v));
  }
  const double n = static_cast<double>(values.size()), mean = sum / n;
  return {mean, std::sqrt(squares / n - mean * mean), largest};
}

TEST(Initialise, DrawsWhatItsNameSays) {
  const Shape conv{40, 30, 3, 3};  // fan in 270, out 360
  const Moments constant = moments_of(Initialiser::constant(0.5f), conv);
  EXPECT_EQ(constant.mean, 0.5);

  const Moments uniform = moments_of(Initialiser::uniform(1, 3), conv);
  EXPECT_NEAR(uniform.mean, 2, 0.02);
  EXPECT_NEAR(uniform.deviation, 2 / std::sqrt(12), 0.02);

  const Moments gaussian = moments_of(Initialiser::gaussian(1, 2), conv);
  EXPECT_NEAR(gaussian.mean, 1, 0.06);
  EXPECT_NEAR(gaussian.deviation, 2, 0.06);

  const Moments truncated = moments_of(Initialiser::truncated_gaussian(0, 0.1f), conv);
  EXPECT_LE(truncated.largest, 0.2001);
  EXPECT_NEAR(truncated.deviation, 0.088, 0.002);  // of a normal cut off at two deviations

  for (const auto& [fan, count] : {std::pair{Initialiser::Fan::in, 270.0},
                                   {Initialiser::Fan::out, 360.0},
                                   {Initialiser::Fan::average, 315.0}}) {
    const Moments xavier = moments_of(Initialiser::xavier(fan), conv);
    EXPECT_LE(xavier.largest, std::sqrt(3 / count) + 1e-6);
    EXPECT_NEAR(xavier.deviation * std::sqrt(count), 1, 0.03);
    const Moments he = moments_of(Initialiser::he(fan), conv);
    EXPECT_NEAR(he.deviation * std::sqrt(count / 2), 1, 0.03);
  }
}

}  // namespace
}  // namespace crossbow::testing
