#include "passes/freeze.h"

#include <set>

#include "models/layers.h"
#include "ops/activation.h"
#include "ops/elementwise.h"
#include "support/against_reference.h"
#include "support/error_text.h"
#include "support/text.h"

namespace crossbow {
namespace {

using testing::cpu;
using testing::error_of;
using testing::expect_says;
using testing::GraphRun;
using testing::reference;
using testing::relative_error;
using testing::with_gradients;

Tensor plain_net(Tensor x) {
  x = relu(conv2d(x, Conv2d{.filters = 4, .padding = 1}, "first"));
  x = relu(conv2d(x, Conv2d{.filters = 6, .padding = 1}, "second"));
  return dense(x, Dense{.outputs = 10}, "head");
}

/// A residual block between a convolution and the last layer.
Tensor residual_net(Tensor x) {
  x = relu(batch_norm(conv2d(x, Conv2d{.filters = 4, .padding = 1, .bias = false}, "stem"), {},
                      "stem_bn"));
  const Tensor y = conv2d(x, Conv2d{.filters = 4, .padding = 1, .bias = false}, "block.conv");
  x = relu(add(batch_norm(y, {}, "block.bn"), x));
  return dense(x, Dense{.outputs = 10}, "head");
}

Graph net(const ModelFunction& logits) {
  return classifier("net", logits, {.image = {3, 6, 6}, .batch = 4, .options = {}});
}

std::set<std::string> gradients_of(const Graph& graph) {
  std::set<std::string> names;
  for (const auto& [name, value] : graph.outputs()) {
    if (name.starts_with("gradient:")) names.insert(name.substr(9));
  }
  return names;
}

TEST(Freeze, LeavesTheGradientOfTheRest) {
  for (const CompileOptions& options : {reference(), cpu()}) {
    GraphRun all(with_gradients(net(plain_net)), options);
    all.run();
    for (const char* pattern : {"first", "second", "first|head", "weight"}) {
      GraphRun rest(with_gradients(freeze(net(plain_net), pattern)), options);
      rest.run();
      EXPECT_LT(rest.trained_names().size(), all.trained_names().size()) << pattern;
      for (const std::string& name : rest.trained_names()) {
        EXPECT_EQ(relative_error(rest.gradient(name), all.gradient(name)), 0) << pattern << name;
      }
    }
  }
}

TEST(Freeze, EndsTheBackwardPartWhereNothingBelowIsTrained) {
  const Graph all = with_gradients(net(plain_net));
  const Graph head = remove_dead(with_gradients(freeze(net(plain_net), "first|second")));
  EXPECT_EQ(gradients_of(head), (std::set<std::string>{"head.bias", "head.weight"}));
  EXPECT_FALSE(all.find("conv2d_grad_weights").empty());
  EXPECT_TRUE(head.find("conv2d_grad_weights").empty());
  EXPECT_TRUE(head.find("conv2d_grad_input").empty());
  EXPECT_TRUE(head.find("activation_grad").empty());
}

TEST(Freeze, LeavesBatchNormAsItIsInEvaluation) {
  for (const CompileOptions& options : {reference(), cpu()}) {
    const Graph frozen = freeze(net(residual_net), "stem|block");
    GraphRun trained(with_gradients(fuse(frozen)), options);
    GraphRun evaluated(for_inference(net(residual_net)), options);
    for (GraphRun* run : {&trained, &evaluated}) {
      for (const char* layer : {"stem_bn", "block.bn"}) {
        run->set(fmt::format("{}.running_mean", layer), std::array{0.3, -0.1, 0.2, 0.7});
        run->set(fmt::format("{}.running_var", layer), std::array{0.3, 1.7, 0.9, 2.1});
      }
      run->run();
    }
    EXPECT_LT(relative_error(trained.values("logits"), evaluated.values("logits")), 1e-6);
    for (const char* state : {"stem_bn.running_mean", "block.bn.running_var"}) {
      EXPECT_EQ(trained.get(state), evaluated.get(state));
    }
  }
}

TEST(Freeze, LeavesBatchNormOfWhichAPartIsTrained) {
  const Graph graph = freeze(net(residual_net), "stem_bn.weight");
  for (const int32_t id : graph.find("batch_norm")) {
    EXPECT_TRUE(graph.nodes()[id].attrs<BatchNormAttributes>().training);
  }
  EXPECT_EQ(gradients_of(with_gradients(graph)).count("stem_bn.bias"), 1u);
}

TEST(Freeze, AGradientPassesThroughFrozenLayers) {
  const auto frozen = [](const char* model, const char* pattern) {
    return with_gradients(fuse(freeze(testing::small_model(find_model(model)), pattern)));
  };
  for (const Graph& graph :
       {frozen("resnet-18", "layer[1-3]\\."), frozen("mobilenet-v2", "features\\.[2-9]\\."),
        frozen("resnet-20", "stage2"), with_gradients(fuse(freeze(net(residual_net), "block")))}) {
    const GraphRun expected = testing::run_of(graph, reference());
    const auto error = [&](const CompileOptions& options) {
      return testing::gradient_error(testing::run_of(graph, options), expected, 1e-4);
    };
    EXPECT_LT(error(cpu()), std::max(1e-4, 2 * error(reference(DType::f32)))) << graph.name();
  }
}

/// As several patterns are one.
TEST(Freeze, RefusesAnAlternativeThatIsFoundNowhere) {
  const auto refusal = [](const char* pattern) {
    return error_of([&] { expect_each_found(net(plain_net), pattern); });
  };
  expect_says(refusal("first|secnd"), "`freeze` secnd: it is found in none");
  for (const char* pattern :
       {"fi(rst|fth)", "fir[|s]t", "fir[[:alpha:]|]t|head", "first\\||head"}) {
    EXPECT_EQ(refusal(pattern).find("no regular"), std::string::npos) << pattern;
  }
  for (const char* pattern : {"first|second", "fi(rst|fth)", "fir[|s]t", "head\\.weight|first"}) {
    EXPECT_EQ(gradients_of(with_gradients(freeze(net(plain_net), pattern))).count("first.weight"),
              0u)
        << pattern;
  }
}

TEST(Freeze, RefusesAPatternThatFreezesNothingOrAll) {
  const Graph graph = net(residual_net);
  expect_says(error_of([&] { freeze(graph, "layer1"); }),
              "`freeze` layer1: it is found in none of the parameters' names, which begin with "
              "stem, stem_bn, block, head");
  expect_says(error_of([&] { freeze(graph, "hed"); }), "did you mean 'head'?");
  expect_says(error_of([&] { freeze(graph, "."); }), "nothing would learn");
  expect_says(error_of([&] { freeze(graph, "stem("); }), "`freeze` stem(: it is no regular");
  expect_says(error_of([&] { freeze(graph, std::string(100000, '(')); }), "100000 characters");
}

}  // namespace
}  // namespace crossbow
