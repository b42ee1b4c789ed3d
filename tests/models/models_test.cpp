#include <gtest/gtest.h>

#include "graph/op.h"
#include "models/model.h"
#include "ops/conv2d.h"
#include "ops/dropout.h"
#include "ops/pool.h"
#include "passes/autodiff.h"
#include "passes/passes.h"
#include "support/error_text.h"

namespace crossbow::testing {
namespace {

ModelSpec spec_of(const Model& model) {
  return model.default_spec(/*batch=*/2);
}

Graph build(std::string_view name) {
  return build_model(name, spec_of(find_model(name)));
}

int64_t parameters(const Graph& graph) {
  int64_t total = 0;
  for (int32_t id : graph.find("parameter")) {
    total += graph.nodes()[id].outputs[0].shape.elements();
  }
  return total;
}

int64_t parameters_of(std::string_view name) {
  return parameters(build(name));
}

// The first three are those of the first Crossbow's nets.
TEST(Models, ParameterCounts) {
  EXPECT_EQ(parameters_of("lenet"), 1111946);
  EXPECT_EQ(parameters_of("resnet-32"), 468826);
  EXPECT_EQ(parameters_of("vgg-16"), 15038116);
  EXPECT_EQ(parameters_of("logistic"), 784 * 10 + 10);
  EXPECT_EQ(parameters_of("mlp"), 300 * 512 + 512 + 7 * (512 * 512 + 512) + 512 * 2 + 2);
  EXPECT_EQ(parameters_of("mlp:layers=2,width=16,activation=relu"),
            300 * 16 + 16 + 16 * 16 + 16 + 16 * 2 + 2);
}

/// Of the convolutions of the first block that halves the maps.
std::vector<int64_t> strides(const std::string& name) {
  const Graph graph = build(name);
  std::vector<int64_t> found;
  for (const int32_t id : graph.find("conv2d")) {
    const Node& node = graph.nodes()[id];
    if (node.name.starts_with("layer2.0")) {
      found.push_back(node.attrs<Conv2dAttributes>().stride.height);
    }
  }
  return found;
}

std::vector<std::string> parameter_names(const std::string& name) {
  const Graph graph = build(name);
  std::vector<std::string> names;
  for (const int32_t id : graph.find("parameter")) names.push_back(graph.nodes()[id].name);
  return names;
}

/// Those of torchvision, whose names they have.
TEST(Models, ImageNetsResnetsAreTorchvisions) {
  EXPECT_EQ(parameters_of("resnet-18"), 11689512);
  EXPECT_EQ(parameters_of("resnet-34"), 21797672);
  EXPECT_EQ(parameters_of("resnet-50"), 25557032);
  EXPECT_EQ(parameters_of("resnet-50:variant=v1"), 25557032);
  EXPECT_EQ(parameters_of("resnet-101"), 44549160);
  EXPECT_EQ(parameters_of("resnet-152"), 60192808);
  EXPECT_EQ(strides("resnet-50"), (std::vector<int64_t>{1, 2, 1, 2}));
  EXPECT_EQ(strides("resnet-50:variant=v1"), (std::vector<int64_t>{2, 1, 1, 2}));
  EXPECT_EQ(strides("resnet-18"), (std::vector<int64_t>{2, 1, 2}));
  const std::vector<std::string> names = parameter_names("resnet-50");
  for (const char* name :
       {"conv1.weight", "bn1.bias", "layer1.0.conv3.weight", "layer1.0.downsample.0.weight",
        "layer1.0.downsample.1.weight", "layer4.2.bn3.weight", "fc.bias"}) {
    EXPECT_NE(std::ranges::find(names, name), names.end()) << name;
  }
  EXPECT_EQ(names.size(), 161u);
}

/// v2 has no batch norm behind conv1 and the projections, one before the average, and in each
/// block's first one the channels that come in, where v1's last one has those that go out.
TEST(Models, PreactivatedResnets) {
  const int64_t stem = 2 * 64, projections = 2 * (256 + 512 + 1024 + 2048), last = 2 * 2048;
  const int64_t in_for_out = 2 * ((256 - 64) + (512 - 256) + (1024 - 512) + (2048 - 1024));
  const int64_t fewer = stem + projections + in_for_out - last;
  EXPECT_EQ(parameters_of("resnet-50:variant=v2"), 25557032 - fewer);
  EXPECT_EQ(parameters_of("resnet-50:variant=v2"), 25549352);
  EXPECT_EQ(parameters_of("resnet-101:variant=v2"), 44541480);
  EXPECT_EQ(parameters_of("resnet-152:variant=v2"), 60185128);
  EXPECT_EQ(parameters_of("resnet-18:variant=v2"), 11687720);
  EXPECT_EQ(parameters_of("resnet-34:variant=v2"), 21795880);
  const std::vector<std::string> names = parameter_names("resnet-50:variant=v2");
  EXPECT_EQ(names.size(), 153u);
  for (const char* name : {"conv1.weight", "layer1.0.bn1.weight", "layer1.0.downsample.0.weight",
                           "layer4.2.conv3.weight", "bn.bias", "fc.bias"}) {
    EXPECT_NE(std::ranges::find(names, name), names.end()) << name;
  }
  EXPECT_EQ(strides("resnet-50:variant=v2"), (std::vector<int64_t>{2, 1, 2, 1}));
}

/// Each block more in every stage adds two convolutions without bias and their batch norms.
TEST(Models, ResnetsGrowByWholeBlocks) {
  int64_t three_blocks = 0;
  for (const int64_t width : {16, 32, 64}) three_blocks += 2 * (9 * width * width + 2 * width);
  const int64_t smallest = parameters_of("resnet-20");
  EXPECT_EQ(parameters_of("resnet-32"), smallest + 2 * three_blocks);
  EXPECT_EQ(parameters_of("resnet-44"), smallest + 4 * three_blocks);
  EXPECT_EQ(parameters_of("resnet-56"), smallest + 6 * three_blocks);
  EXPECT_EQ(parameters_of("resnet-110"), smallest + 15 * three_blocks);
}

TEST(Models, AllBuildDifferentiateAndReachEveryParameter) {
  for (const Model* model : all_models()) {
    SCOPED_TRACE(model->name);
    Graph graph = build_model(model->name, spec_of(*model));
    EXPECT_EQ(graph.type(graph.output("logits")).shape, (Shape{2, model->default_classes}));
    EXPECT_EQ(graph.type(graph.output("loss")).shape, Shape{});
    if (model->default_groups.empty()) {
      EXPECT_EQ(graph.type(graph.output("accuracy")).shape, Shape{});
    }
    const std::vector<int32_t> parameters = graph.find("parameter");
    differentiate(graph, objective(graph));
    for (int32_t id : parameters) {
      const Node& node = graph.nodes()[id];
      EXPECT_EQ(graph.type(graph.output("gradient:" + node.name)).shape, node.outputs[0].shape);
    }
  }
}

TEST(Models, AllBuildForAnotherBatchAndForInference) {
  for (const Model* model : all_models()) {
    SCOPED_TRACE(model->name);
    const Graph graph = with_batch(build_model(model->name, spec_of(*model)), 5);
    EXPECT_EQ(graph.type(graph.output("logits")).shape, (Shape{5, model->default_classes}));
    const Graph inference = for_inference(graph);
    EXPECT_TRUE(inference.find("dropout").empty());
    EXPECT_EQ(parameters(inference), parameters(graph));
  }
}

/// Data sets of other sizes: grey digits, CIFAR, thumbnails.
TEST(Models, ConvolutionalOnesTakeOtherImageSizes) {
  for (const char* name : {"lenet", "resnet-20", "vgg-16"}) {
    for (const Shape& image : {Shape{1, 28, 28}, {3, 32, 32}, {3, 48, 40}}) {
      SCOPED_TRACE(name + image.str());
      const Graph graph = build_model(name, {.image = image, .classes = 7, .batch = 3});
      EXPECT_EQ(graph.type(graph.output("logits")).shape, (Shape{3, 7}));
    }
  }
  const Graph tiny = build_model("resnet-20", {.image = {1, 4, 4}});
  EXPECT_EQ(tiny.type(Value{tiny.find("avg_pool").at(0), 0}).shape, (Shape{16, 64, 1, 1}));
}

TEST(Models, ImagesThatDoNotFitAreRefusedByName) {
  EXPECT_EQ(error_of([] {
              build_model("lenet", {.image = {3, 12, 12}});
            }),
            "the model 'lenet' is for images of 16 to 128 pixels a side, not 12x12; scale a "
            "folder's images with `image-size`, or choose resnet-20");
  EXPECT_EQ(error_of([] { build_model("resnet-20", {.image = {300}}); }),
            "the model 'resnet-20' learns images, but each sample is a row of 300 numbers: choose "
            "logistic or mlp");
  EXPECT_EQ(error_of([] {
              build_model("lenet", {.image = {9}, .classes = 1, .groups = {4, 5}});
            }),
            "the model 'lenet' learns images, but each sample is a row of 9 numbers: choose "
            "factorisation");
}

TEST(Models, RowsOfAsManyNumbersAsOneLikesAreNoImages) {
  EXPECT_NO_THROW(build_model("logistic", {.image = {5000, 1, 1}}));
  EXPECT_THROW(build_model("logistic", {.image = {5000, 1, 2}}), Error);
}

/// Checkpoints and exports rely on the names.
TEST(Models, ParametersAreNamedAfterTheirLayers) {
  const Graph graph = build("resnet-20");
  std::vector<std::string> names;
  for (int32_t id : graph.find("parameter")) names.push_back(graph.nodes()[id].name);
  EXPECT_EQ(names[0], "conv.weight");
  EXPECT_EQ(names[1], "bn.weight");
  EXPECT_EQ(names[2], "bn.bias");
  EXPECT_EQ(names[3], "stage1.block1.conv1.weight");
  EXPECT_EQ(names[names.size() - 2], "fc.weight");
  EXPECT_EQ(names.back(), "fc.bias");
  EXPECT_EQ(graph.nodes()[graph.find("state")[0]].name, "bn.running_mean");
  EXPECT_EQ(graph.nodes()[graph.find("state")[1]].name, "bn.running_var");
}

TEST(Models, ResnetsLastAverageLeavesFourPositions) {
  const Graph graph = build("resnet-32");
  const Node& pool = graph.nodes()[graph.find("avg_pool").at(0)];
  EXPECT_EQ(pool.attrs<PoolAttributes>().kernel, Size2(7));
  EXPECT_EQ(pool.outputs[0].shape, (Shape{2, 64, 2, 2}));
  EXPECT_EQ(graph.find("conv2d").size(), 31u + 2);  // two projections
}

TEST(Models, VggDropsOutAsPublished) {
  const Graph graph = build("vgg-16");
  std::vector<float> rates;
  for (int32_t id : graph.find("dropout")) {
    rates.push_back(graph.nodes()[id].attrs<DropoutAttributes>().probability);
  }
  EXPECT_EQ(rates,
            (std::vector<float>{0.3f, 0.4f, 0.4f, 0.4f, 0.4f, 0.4f, 0.4f, 0.4f, 0.5f, 0.5f}));
}

}  // namespace
}  // namespace crossbow::testing
