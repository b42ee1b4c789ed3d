#include <gtest/gtest.h>

#include "models/layers.h"
#include "models/model.h"
#include "models/options.h"
#include "support/error_text.h"

namespace crossbow::testing {
namespace {

template <typename Call>
std::string usage_error_of(Call call) {
  try {
    call();
  } catch (const UsageError& e) {
    return e.what();
  } catch (const Error& e) {
    return fmt::format("not a UsageError: {}", e.what());
  }
  return "no error";
}

TEST(ModelRegistry, ListsByNumber) {
  std::vector<std::string> names;
  for (const Model* model : all_models()) names.push_back(model->name);
  EXPECT_EQ(names,
            (std::vector<std::string>{"alexnet",      "factorisation",   "googlenet",
                                      "inception-v3", "lenet",           "logistic",
                                      "mlp",          "mobilenet-v2",    "overfeat",
                                      "resnet-18",    "resnet-20",       "resnet-32",
                                      "resnet-34",    "resnet-44",       "resnet-50",
                                      "resnet-56",    "resnet-101",      "resnet-110",
                                      "resnet-152",   "vgg-11-imagenet", "vgg-13-imagenet",
                                      "vgg-16",       "vgg-16-imagenet", "vgg-19-imagenet"}));
  for (const Model* model : all_models()) {
    EXPECT_FALSE(model->summary.empty()) << model->name;
    EXPECT_FALSE(model->recipe.data.empty()) << model->name;
  }
}

TEST(ModelRegistry, FindsByNameWithOrWithoutOptions) {
  EXPECT_EQ(find_model("lenet").name, "lenet");
  EXPECT_EQ(find_model("mlp:layers=2").name, "mlp");
}

TEST(ModelRegistry, SuggestsTheNearestNameFirst) {
  EXPECT_EQ(usage_error_of([] { find_model("resnet32"); }),
            "there is no model 'resnet32'; there are, the nearest first: resnet-32, resnet-20, "
            "resnet-34, resnet-18, resnet-44, resnet-50, resnet-56, resnet-152, lenet, "
            "resnet-101, resnet-110, alexnet, logistic, overfeat, googlenet, mlp, mobilenet-v2, "
            "vgg-16, inception-v3, factorisation, vgg-11-imagenet, vgg-13-imagenet, "
            "vgg-16-imagenet, vgg-19-imagenet");
  const std::string error = usage_error_of([] { find_model("lenet5:depth=3"); });
  EXPECT_EQ(error.find("there is no model 'lenet5'; there are, the nearest first: lenet, "), 0u)
      << error;
}

std::string build_error(std::string_view name, ModelSpec spec = {.image = {300}}) {
  return usage_error_of([&] { build_model(name, spec); });
}

TEST(ModelOptions, AreReadStrictly) {
  EXPECT_EQ(build_error("mlp:depth=3"),
            "the model 'mlp' has no option 'depth'; it has: layers, width, activation, "
            "bias");
  EXPECT_EQ(build_error("lenet:width=3"), "the model 'lenet' takes no options, not 'width'");
  EXPECT_EQ(build_error("mlp:layers"),
            "'layers' in the model 'mlp:layers' must be written as option=value");
  EXPECT_EQ(build_error("mlp:layers=2,layers=3"),
            "the option 'layers' of the model 'mlp:layers=2,layers=3' is set twice");
  EXPECT_EQ(build_error("mlp:activation=swish"),
            "the option 'activation' of the model 'mlp' must be one of sigmoid, tanh, relu, gelu, "
            "not 'swish'");
  for (const char* value : {"0", "-1", "1001", "2x", "", " 2", "99999999999999999999"}) {
    EXPECT_EQ(build_error(fmt::format("mlp:layers={}", value)),
              fmt::format("the option 'layers' of the model 'mlp' must be a whole number from 1 to "
                          "1000, not '{}'",
                          value));
  }
}

TEST(ModelOptions, MayComeWithTheSpec) {
  const ModelSpec spec{.image = {300}, .options = {{"layers", "1"}}};
  EXPECT_EQ(build_model("mlp", spec).find("dense").size(), 2u);
  EXPECT_EQ(build_model("mlp:width=3", spec).find("dense").size(), 2u);
  EXPECT_EQ(build_error("mlp:layers=2", spec),
            "the option 'layers' of the model 'mlp:layers=2' is set twice");
}

TEST(BuildModel, RefusesEmptyBatches) {
  EXPECT_EQ(build_error("mlp", {.image = {300}, .classes = 2, .batch = 0}),
            "the model 'mlp' needs a batch and a number of classes of at least 1, not 0 and 2");
}

TEST(Layers, ShareTheirNamesWithTheirParameters) {
  Graph graph;
  const Tensor x = input(graph, {2, 3, 8, 8});
  Tensor y = conv2d(x, Conv2d{.filters = 4});
  y = conv2d(y, Conv2d{.filters = 5, .bias = false});
  const auto scope = graph.scope("head");
  y = dense(y, Dense{.outputs = 6});
  y = batch_norm(y, {}, "norm");
  std::vector<std::string> names;
  for (const Node& node : graph.nodes()) names.push_back(node.name);
  EXPECT_EQ(names,
            (std::vector<std::string>{
                "input", "conv2d.weight", "conv2d", "conv2d.bias", "conv2d.add_bias",
                "conv2d_1.weight", "conv2d_1", "head.dense.weight", "head.dense", "head.dense.bias",
                "head.dense.add_bias", "head.norm.weight", "head.norm.bias",
                "head.norm.running_mean", "head.norm.running_var", "head.norm"}));
  EXPECT_EQ(graph.type(Value{1, 0}).shape, (Shape{4, 3, 3, 3}));
  EXPECT_EQ(y.shape(), (Shape{2, 6}));
}

TEST(Layers, ErrorsNameTheLayer) {
  Graph graph;
  const Tensor x = input(graph, {2, 6, 8, 8});
  EXPECT_EQ(error_of([&] { conv2d(x, Conv2d{.filters = 4, .groups = 4}, "c"); }),
            "layer c: 4 groups do not divide the 6 channels of x [2, 6, 8, 8]");
  EXPECT_EQ(error_of([&] { conv2d(x, Conv2d{.filters = 4, .groups = 0}, "c"); }),
            "layer c: stride 1, dilation 1 and groups 0 must be at least 1 and padding 0 at least "
            "0");
  EXPECT_EQ(error_of([&] { conv2d(x, Conv2d{.filters = 0}, "c"); }),
            "layer c: conv2d weights [0, 6, 3, 3] must have dimensions of at "
            "least 1");
  EXPECT_EQ(error_of([&] { batch_norm(input(graph, {4}), {}, "bn"); }),
            "layer bn: x must be [N, C] or [N, C, H, W], not [4]");
  EXPECT_EQ(error_of([&] { max_pool(x, 9); }),
            "layer max_pool: the pooling kernel 9x9 is larger than x [2, 6, 8, 8] with padding 0");
}

}  // namespace
}  // namespace crossbow::testing
