#include "ops/adaptive_pool.h"

#include "core/error.h"
#include "graph/op.h"
#include "ops/expect.h"

namespace crossbow {
namespace {

std::vector<TensorType> infer(const Node& node, std::span<const TensorType> in) {
  expect_rank(in[0], 4, "x", "[N, C, H, W]");
  const Shape& x = in[0].shape;
  const Size2& parts = node.attrs<AdaptivePoolAttributes>().parts;
  if (parts.height < 1 || parts.width < 1) {
    fail("a map is divided into at least one part, not {}", parts.str());
  }
  return {{Shape{x[0], x[1], parts.height, parts.width}}};
}

std::vector<TensorType> infer_grad(const Node& node, std::span<const TensorType>) {
  return {{node.attrs<AdaptivePoolGradAttributes>().shape}};
}

std::vector<Case> cases();
void gradient(GradientContext& c);

const Op& kPool = register_op(
    {.name = "adaptive_avg_pool", .infer = infer, .gradient = gradient, .cases = cases});
const Op& kGrad = register_op({.name = "adaptive_avg_pool_grad", .infer = infer_grad});

void gradient(GradientContext& c) {
  auto a = std::make_shared<AdaptivePoolGradAttributes>();
  static_cast<AdaptivePoolAttributes&>(*a) = c.node().attrs<AdaptivePoolAttributes>();
  a->shape = c.input(0).shape();
  c.set(0, c.graph().append(kGrad, {c.output_gradient().value}, a));
}

std::vector<Case> cases() {
  const auto of = [](Shape shape, Size2 parts) {
    return [=](CaseBuilder& b) { return adaptive_avg_pool(b.input(shape), parts); };
  };
  return {{"14 in 4", of({2, 5, 14, 14}, 4)},
          {"6 and 7 in 4, 16 channels", of({2, 16, 6, 7}, 4)},
          {"equal parts", of({2, 3, 6, 4}, 2)},
          {"3 and 2 parts", of({1, 4, 8, 5}, {3, 2})},
          {"one part", of({2, 17, 5, 4}, 1)},
          {"more parts than pixels", of({2, 3, 2, 3}, 4)},
          {"1x1 images of 16 channels", of({2, 16, 1, 1}, 3)},
          {"one channel of 1x5 images", of({2, 1, 1, 5}, {1, 3})},
          {"4x1 images of 17 channels", of({1, 17, 4, 1}, {3, 1})},
          {"64 channels", of({4, 64, 14, 12}, {4, 5}), /*small=*/false}};
}

}  // namespace

Tensor adaptive_avg_pool(Tensor x, const Size2& parts, std::string name) {
  auto attributes = std::make_shared<AdaptivePoolAttributes>();
  attributes->parts = parts;
  return x.graph->append(kPool, {x.value}, std::move(attributes), std::move(name));
}

}  // namespace crossbow
