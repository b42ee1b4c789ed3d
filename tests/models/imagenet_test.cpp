// Nets for ImageNet: sizes, names, and that they train.
#include <cmath>

#include "ops/pool.h"
#include "passes/passes.h"
#include "plan/compiled_model.h"
#include "support/error_text.h"
#include "support/model_testing.h"

namespace crossbow::testing {
namespace {

Graph default_net(std::string_view name, int64_t batch = 2) {
  return build_model(name, find_model(name).default_spec(batch));
}

std::vector<std::string> names_of(const Graph& graph) {
  std::vector<std::string> names;
  for (const int32_t id : graph.find("parameter")) names.push_back(graph.nodes()[id].name);
  return names;
}

/// A model as its name and options say, and what torchvision or its paper has of it.
struct KnownNet {
  const char* name;
  int64_t parameters;
  size_t tensors;
  std::vector<const char*> some_names;
};

std::vector<KnownNet> known_nets() {
  return {
      {"vgg-11-imagenet",
       132863336,
       22,
       {"features.0.weight", "features.18.bias", "classifier.0.weight", "classifier.6.bias"}},
      {"vgg-13-imagenet", 133047848, 26, {"features.22.weight"}},
      {"vgg-16-imagenet", 138357544, 32, {"features.28.weight", "classifier.3.bias"}},
      {"vgg-19-imagenet", 143667240, 38, {"features.34.weight"}},
      {"vgg-11-imagenet:bn=true", 132868840, 38, {"features.25.weight", "features.26.bias"}},
      {"vgg-13-imagenet:bn=true", 133053736, 46, {"features.32.bias"}},
      {"vgg-16-imagenet:bn=true", 138365992, 58, {"features.40.weight", "features.41.weight"}},
      {"vgg-19-imagenet:bn=true", 143678248, 70, {"features.50.weight"}},
      {"alexnet", 61100840, 16, {"features.10.weight", "classifier.1.bias", "classifier.6.weight"}},
      {"alexnet:variant=2012", 60965224, 16, {"features.4.weight", "classifier.0.weight"}},
      {"overfeat", 145920872, 16, {"features.3.bias", "classifier.1.weight"}},
      {"googlenet",
       6624904,
       173,
       {"conv1.conv.weight", "conv3.bn.bias", "inception4a.branch4.1.bn.bias",
        "inception5b.branch3.1.conv.weight", "fc.bias"}},
      {"googlenet:variant=2014",
       6998552,
       116,
       {"conv1.conv.bias", "inception3a.branch1.conv.bias"}},
      {"googlenet:aux=true",
       13004888,
       187,
       {"aux1.conv.conv.weight", "aux1.conv.bn.bias", "aux1.fc1.weight", "aux2.fc2.bias"}},
      {"inception-v3:aux=true",
       27161264,
       292,
       {"AuxLogits.conv0.conv.weight", "AuxLogits.conv1.bn.weight", "AuxLogits.fc.bias"}},
      {"inception-v3",
       23834568,
       284,
       {"Conv2d_1a_3x3.conv.weight", "Mixed_5d.branch5x5_1.bn.bias",
        "Mixed_6e.branch7x7dbl_5.conv.weight", "Mixed_7c.branch3x3dbl_3b.bn.bias", "fc.bias"}},
      {"mobilenet-v2",
       3504872,
       158,
       {"features.0.1.weight", "features.1.conv.0.0.weight", "features.1.conv.1.weight",
        "features.2.conv.1.0.weight", "features.17.conv.3.bias", "features.18.0.weight",
        "classifier.1.bias"}},
  };
}

TEST(ImageNet, NetsHaveTheirSizesAndNames) {
  for (const KnownNet& net : known_nets()) {
    SCOPED_TRACE(net.name);
    const Graph graph = default_net(net.name);
    int64_t parameters = 0;
    for (const int32_t id : graph.find("parameter")) {
      parameters += graph.nodes()[id].outputs[0].shape.elements();
    }
    EXPECT_EQ(parameters, net.parameters);
    const std::vector<std::string> names = names_of(graph);
    EXPECT_EQ(names.size(), net.tensors);
    for (const char* name : net.some_names) {
      EXPECT_NE(std::ranges::find(names, name), names.end()) << name;
    }
  }
}

std::string refusal_of(const std::string& model, Shape image) {
  return error_of([&] { build_model(model, {.image = image, .classes = 10}); });
}

/// Their dense layers read a map of a fixed size.
TEST(ImageNet, SidesThatDoNotDivideAreRefusedWithTheNearest) {
  EXPECT_EQ(refusal_of("vgg-11-imagenet", {3, 192, 224}),
            "the model 'vgg-11-imagenet' averages its last maps to 7x7, which images of 192x224 do "
            "not give in equal parts: the nearest side to 192 is 224 pixels; scale a folder's "
            "images with `image-size`, or choose resnet-50");
  const std::string between = refusal_of("vgg-11-imagenet", {3, 224, 300});
  EXPECT_NE(between.find("the nearest side to 300 is 255 or 448 pixels"), between.npos) << between;
  const std::string alexnet = refusal_of("alexnet", {3, 32, 32});
  EXPECT_NE(alexnet.find("the nearest side to 32 is 223 pixels"), alexnet.npos) << alexnet;
  EXPECT_EQ(refusal_of("inception-v3", {3, 75, 74}),
            "the model 'inception-v3' is for images of at least 75 pixels a side, not 75x74; scale "
            "a folder's images with `image-size`, or choose resnet-50");
  EXPECT_EQ(refusal_of("inception-v3", {3, 75, 75}), "no error");
  EXPECT_EQ(refusal_of("overfeat", {3, 231, 256}), "no error");
  EXPECT_EQ(refusal_of("vgg-11-imagenet", {1, 448, 255}), "no error");
  EXPECT_EQ(refusal_of("alexnet", {3, 223, 254}), "no error");
}

TEST(ImageNet, EqualWindowsAreAveraged) {
  const Graph graph = build_model("vgg-11-imagenet", {.image = {3, 448, 224}, .batch = 1});
  const Node& pool = graph.nodes()[graph.find("avg_pool").at(0)];
  EXPECT_EQ(pool.attrs<PoolAttributes>().kernel, (Size2{2, 1}));
  EXPECT_EQ(pool.outputs[0].shape, (Shape{1, 512, 7, 7}));
  EXPECT_TRUE(default_net("vgg-11-imagenet").find("avg_pool").empty());
}

/// Nets that the tests of all models leave out, because they take no small images or consist of
/// blocks that others have.
struct FurtherNet {
  const char* net;
  int64_t side, batch;
};

class FurtherNets : public ::testing::TestWithParam<FurtherNet> {};

TEST_P(FurtherNets, Train) {
  const auto [net, side, batch] = GetParam();
  const Recipe& recipe = find_model(net).recipe;
  CompileOptions options = cpu();
  options.update = make_sgd({recipe.momentum, recipe.weight_decay});
  const ModelSpec spec{.image = {3, side, side}, .classes = 2, .batch = batch};
  GraphRun run(training_graph(fuse(build_model(net, spec)), batch), options);
  run.step().update = options.update->at(recipe.lr);
  run.run();
  const double first = run.scalar("loss");
  EXPECT_NEAR(first, std::log(2), 1);
  for (int step = 0; step < 2; ++step) run.run();
  EXPECT_LT(run.scalar("loss"), first);
}

INSTANTIATE_TEST_SUITE_P(
    Models, FurtherNets,
    ::testing::Values(FurtherNet{"vgg-11-imagenet:bn=true", 224, 1}, FurtherNet{"alexnet", 224, 1},
                      FurtherNet{"alexnet:variant=2012", 224, 1}, FurtherNet{"overfeat", 231, 1},
                      FurtherNet{"googlenet:variant=2014", 64, 2},
                      FurtherNet{"inception-v3", 107, 4}, FurtherNet{"resnet-50:variant=v1", 64, 4},
                      FurtherNet{"resnet-50:variant=v2", 64, 4},
                      FurtherNet{"resnet-18:variant=v2", 64, 4}),
    [](const auto& info) {
      std::string name = info.param.net;
      std::erase_if(name, [](char c) { return !std::isalnum(c); });
      return name;
    });

}  // namespace
}  // namespace crossbow::testing
