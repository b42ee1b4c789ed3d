// Every model on images that its data set does not have: it trains, or it says why not.
#include <algorithm>
#include <cmath>

#include "passes/passes.h"
#include "plan/compiled_model.h"
#include "support/error_text.h"
#include "support/model_testing.h"

namespace crossbow::testing {
namespace {

class ImageSizes : public ::testing::TestWithParam<const Model*> {};

INSTANTIATE_TEST_SUITE_P(Models, ImageSizes, ::testing::ValuesIn(image_models()), model_name);

/// Whether the model takes the images; a refusal must name the model, the size and the remedy.
bool takes(const Model& model, const ModelSpec& spec) {
  const std::string error = error_of([&] {
    const Graph graph = training_graph(fuse(build_model(model.name, spec)), spec.batch);
    EXPECT_EQ(graph.type(graph.output("logits")).shape, (Shape{spec.batch, spec.classes}));
  });
  if (error == "no error") return true;
  for (const std::string& part : {model.name, std::to_string(spec.image[1]),
                                  std::string("`image-size`"), std::string("resnet-20")}) {
    EXPECT_NE(error.find(part), error.npos) << error;
  }
  return false;
}

TEST_P(ImageSizes, AreTakenOrRefused) {
  const Model& model = *GetParam();
  for (const int64_t height : {24, 32, 48, 96, 224}) {
    for (const int64_t width : {height, height / 2 + 16}) {
      for (const int64_t channels : {1, 3}) {
        for (const int64_t classes : {2, 1000}) {
          const ModelSpec spec{.image = {channels, height, width}, .classes = classes, .batch = 8};
          SCOPED_TRACE(spec.image.str());
          const bool taken = takes(model, spec);
          if (model.name == "lenet") {
            EXPECT_EQ(taken, height <= 128);
          } else if (model.name == "logistic") {
            EXPECT_EQ(taken, spec.image.elements() <= 4096);
          } else {
            EXPECT_TRUE(taken);
          }
        }
      }
    }
  }
}

/// The losses of steps on pictures whose brightness tells their class.
std::vector<double> losses(const Model& model, const ModelSpec& spec, double lr, int steps) {
  CompileOptions options = cpu();
  const Recipe& recipe = model.recipe;
  options.update = make_sgd({recipe.momentum, recipe.weight_decay});
  GraphRun run(training_graph(fuse(build_model(model.name, spec)), spec.batch), options);
  run.step().update = options.update->at(lr);
  std::vector<double> all;
  for (int step = 0; step < steps; ++step) {
    Rng rng(1, Purpose::synthetic, static_cast<uint32_t>(step));
    std::vector<float> pixels;
    std::vector<int32_t> labels;
    for (int64_t i = 0; i < spec.batch; ++i) {
      const float brightness = rng.uniform(0, 1);
      labels.push_back(static_cast<int32_t>(brightness * static_cast<float>(spec.classes)));
      for (int64_t p = 0; p < spec.image.elements(); ++p) {
        pixels.push_back(std::clamp(brightness + rng.uniform(-0.3f, 0.3f), 0.0f, 1.0f));
      }
    }
    run.feed(0, std::move(pixels));
    run.feed(1, std::move(labels));
    run.run();
    all.push_back(run.scalar("loss"));
  }
  return all;
}

/// With a dense layer that grows with the image a residual net came to a loss of 11 at 48×48, 229
/// at 96×96 and 900 at 128×128, all in its first step.
TEST_P(ImageSizes, TrainWhereTheyAreTaken) {
  constexpr double kAffordable = 6e10;  // floating-point operations
  constexpr int kSteps = 6;
  const Model& model = *GetParam();
  // With so small a batch deeper nets overshoot at the recipe's rate, at their own size too.
  const bool deep = model.name.starts_with("resnet-") && model.name != "resnet-20";
  const double lr = model.recipe.lr / (deep ? 10 : 1);
  for (const Shape& image : {Shape{3, 24, 24},
                             {3, 32, 32},
                             {1, 48, 48},
                             {3, 48, 32},
                             {3, 48, 48},
                             {3, 96, 96},
                             {1, 96, 48},
                             {3, 224, 224},
                             {3, 96, 224}}) {
    for (const int64_t classes : {2, 1000}) {
      const ModelSpec spec{.image = image, .classes = classes, .batch = image[2] > 96 ? 4 : 8};
      SCOPED_TRACE(fmt::format("{} in {} classes", image.str(), classes));
      if (!takes(model, spec)) continue;
      const Graph graph = training_graph(build_model(model.name, spec), spec.batch);
      if (Program::compile(graph, reference(DType::f32))->flops() * kSteps > kAffordable) continue;
      for (const double loss : losses(model, spec, lr, kSteps)) {
        EXPECT_LT(loss, std::log(classes) + 8);  // fails for NaN too
      }
    }
  }
}

}  // namespace
}  // namespace crossbow::testing
