// Heads that train along and are left out in evaluation.
#include <set>

#include "models/layers.h"
#include "ops/activation.h"
#include "passes/passes.h"
#include "plan/compiled_model.h"
#include "support/against_reference.h"
#include "support/error_text.h"
#include "support/text.h"

namespace crossbow::testing {
namespace {

constexpr float kWeight = 0.25f;

NetOutputs net(Tensor x) {
  x = relu(conv2d(x, Conv2d{.filters = 4}, "shared"));
  const Tensor head = dense(x, Dense{.outputs = 5}, "head");
  x = relu(conv2d(x, Conv2d{.filters = 6}, "last"));
  return {dense(x, Dense{.outputs = 5}, "fc"), {{head, kWeight}}};
}
Tensor main_part(Tensor x) {
  return net(x).logits;
}
/// The head alone.
Tensor head_part(Tensor x) {
  return net(x).auxiliary[0].logits;
}

Graph graph_of(const ModelFunction& function, const Loss& loss = CrossEntropyLoss{}) {
  return classifier("net", function,
                    {.image = {3, 8, 8}, .classes = 5, .batch = 6, .options = {}, .loss = loss});
}

TEST(AuxiliaryHeads, AddTheirLossTimesTheirWeight) {
  for (const Loss& loss : {Loss(CrossEntropyLoss{}),
                           Loss(CrossEntropyLoss{.label_smoothing = 0.1f}), Loss(MSELoss{})}) {
    for (const CompileOptions& options : {reference(), cpu()}) {
      const GraphRun both = run_of(with_gradients(graph_of(net, loss)), options);
      const GraphRun last = run_of(with_gradients(graph_of(main_part, loss)), options);
      const GraphRun head = run_of(with_gradients(graph_of(head_part, loss)), options);
      EXPECT_EQ(both.scalar("loss"), last.scalar("loss"));
      EXPECT_NEAR(both.scalar("objective"), last.scalar("loss") + kWeight * head.scalar("loss"),
                  1e-6);
      const auto g = both.gradient("shared.weight"), of_last = last.gradient("shared.weight"),
                 of_head = head.gradient("shared.weight");
      for (size_t i = 0; i < g.size(); ++i) {
        EXPECT_NEAR(g[i], of_last[i] + kWeight * of_head[i], 1e-6);
      }
    }
  }
}

TEST(AuxiliaryHeads, AreLeftOutInEvaluation) {
  const Graph evaluation = remove_dead(for_inference(graph_of(net)));
  EXPECT_EQ(evaluation.find("dense").size(), 1u);
  EXPECT_EQ(evaluation.find("parameter").size(), graph_of(net).find("parameter").size());
  GraphRun all(evaluation), alone(remove_dead(for_inference(graph_of(main_part))));
  all.run();
  alone.run();
  EXPECT_EQ(all.values("logits"), alone.values("logits"));
  EXPECT_EQ(all.scalar("loss"), alone.scalar("loss"));
}

TEST(AuxiliaryHeads, HaveTheShapeOfTheNetsLogits) {
  const auto odd = [](Tensor x) -> NetOutputs {
    return {dense(x, Dense{.outputs = 5}), {{dense(x, Dense{.outputs = 4}), 1}}};
  };
  expect_says(error_of([&] { graph_of(odd); }), "but an auxiliary head of it in [6, 4]");
}

Graph small(const char* model, int64_t side) {
  return build_model(model, {.image = {3, side, side}, .classes = 7, .batch = 3, .options = {}});
}

TEST(AuxiliaryHeads, OfGoogLeNetTrainEveryParameter) {
  for (const char* model : {"googlenet:aux=true", "googlenet:aux=true,variant=2014"}) {
    const int64_t side = std::string(model).ends_with("2014") ? 224 : 48;
    const Graph graph = with_gradients(small(model, side));
    for (const int32_t id : graph.find("parameter")) {
      EXPECT_EQ(graph.outputs().count("gradient:" + graph.nodes()[id].name), 1u);
    }
  }
  const Graph graph = with_gradients(fuse(small("googlenet:aux=true", 48)));
  GraphRun expected(graph), actual(graph, cpu());
  expected.run();
  actual.run();
  EXPECT_LT(gradient_error(actual, expected, 1e-4), 1e-3);
}

TEST(AuxiliaryHeads, OfInceptionWantWholeImages) {
  expect_says(error_of([] { small("inception-v3:aux=true", 224); }),
              "'inception-v3:aux=true' is for images of at least 299 pixels");
}

}  // namespace
}  // namespace crossbow::testing
