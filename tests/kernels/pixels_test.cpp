// Inputs that are fed as pixels have the bits of those that are fed as normalised floats.
#include <algorithm>

#include "models/layers.h"
#include "support/error_text.h"
#include "support/gpu.h"
#include "support/model_testing.h"

namespace crossbow::testing {
namespace {

const Normalisation kNormalisation{{0.48f, 0.45f, 0.4f}, {0.23f, 0.22f, 0.27f}};

/// `pixels` or floats; the first layer wants either in a layout of its own.
Graph net(const Shape& shape, bool of_pixels) {
  Graph graph;
  Tensor x = of_pixels ? pixels(graph, shape, kNormalisation) : input(graph, shape);
  x = conv2d(x, Conv2d{.filters = 16, .padding = 1}, "first");
  graph.set_output("loss", mean_squared_error(x, input(graph, x.shape(), kLabels)).value);
  return with_gradients(graph);
}

std::vector<float> normalised(std::span<const uint8_t> bytes, const Shape& shape) {
  std::vector<float> numbers;
  const int64_t plane = shape[2] * shape[3];
  for (const uint8_t byte : bytes) {
    const int64_t channel = std::ssize(numbers) / plane % shape[1];
    const auto c = static_cast<size_t>(channel);
    numbers.push_back(
        static_cast<float>((byte / 255.0 - kNormalisation.mean[c]) / kNormalisation.std[c]));
  }
  return numbers;
}

class Pixels : public ::testing::TestWithParam<std::string> {};

/// The sizes of one are no multiple of four, and one is large enough to be shared among threads.
/// The second time the batch begins at any address, which devices that copy it do not see.
TEST_P(Pixels, AreNormalisedFloats) {
  for (const DType precision : {DType::f32, DType::bf16}) {
    if (GetParam() == "ref" && precision == DType::bf16) continue;
    for (const Shape& shape : {Shape{4, 3, 8, 8}, Shape{3, 1, 5, 7}, Shape{2, 3, 75, 77}}) {
      CompileOptions options = on_device(GetParam(), precision);
      if (GetParam() == "cpu") options.threads = 3;
      GraphRun of_pixels(net(shape, true), options), of_floats(net(shape, false), options);
      Rng rng(3, Purpose::synthetic);
      std::vector<uint8_t> bytes(static_cast<size_t>(shape.elements()) + 1);
      std::ranges::generate(bytes, [&] { return static_cast<uint8_t>(rng.below(256)); });
      for (const int64_t first : {0, 1}) {
        const auto batch = std::span(bytes)
                               .subspan(static_cast<size_t>(first))
                               .first(static_cast<size_t>(shape.elements()));
        of_pixels.step().inputs[kSamples] = batch.data();
        of_floats.feed(kSamples, normalised(batch, shape));
        for (GraphRun* run : {&of_pixels, &of_floats}) run->run();
        EXPECT_EQ(of_pixels.values("loss"), of_floats.values("loss"));
        EXPECT_EQ(of_pixels.gradients(), of_floats.gradients()) << shape.str();
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, Pixels, ::testing::Values("ref", "cpu", "late", "fibres"),
                         [](const auto& info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(OnGpu, Pixels, ::testing::Values(gpu()));

TEST(InputOfPixels, TakeAQuarterOfTheMemory) {
  const auto program = Program::compile(net({4, 3, 8, 8}, true), cpu());
  EXPECT_EQ(program->input_bytes()[kSamples], 4u * 3 * 8 * 8);
}

TEST(InputOfPixels, LiesInUpToThreeChannels) {
  Graph graph;
  const auto refused = [&](const Shape& shape) {
    return error_of([&] { pixels(graph, shape, kNormalisation); });
  };
  EXPECT_EQ(refused({2, 4, 8, 8}),
            "pixels lie in 1 to 3 channels of images, not in shape [2, 4, 8, 8]");
  EXPECT_EQ(refused({2, 300}), "pixels lie in 1 to 3 channels of images, not in shape [2, 300]");
}

TEST(Normalisation, NearestToTheMeanIsAPixel) {
  const Normalisation n{{0.5f, 0, 1.2f}, {0.5f, 1, 1}};
  EXPECT_EQ(n.nearest_to_mean(0), 128);
  EXPECT_EQ(n.nearest_to_mean(1), 0);
  EXPECT_EQ(n.nearest_to_mean(2), 255);
  EXPECT_FLOAT_EQ(n.of(128, 0), 1 / 255.0f);
}

}  // namespace
}  // namespace crossbow::testing
