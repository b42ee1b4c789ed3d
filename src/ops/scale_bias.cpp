#include "ops/scale_bias.h"

#include "core/error.h"
#include "graph/op.h"
#include "ops/expect.h"

namespace crossbow {
namespace {

std::vector<TensorType> infer(const Node& node, std::span<const TensorType> in) {
  expect_numbers(in[0], "x");
  if (!node.has_input(1) && !node.has_input(2)) fail("a scale or a bias is needed");
  if (node.has_input(1)) expect_per_channel(in[1], in[0], "scale");
  if (node.has_input(2)) expect_per_channel(in[2], in[0], "bias");
  return {in[0]};
}

std::vector<TensorType> infer_grad(const Node& node, std::span<const TensorType> in) {
  const auto& a = node.attrs<ScaleBiasGradAttributes>();
  std::vector<TensorType> outputs = {in[0]};
  for (const bool present : {a.scale, a.bias}) {
    if (present) outputs.push_back({Shape{in[0].shape[1]}});
  }
  return outputs;
}

std::vector<Case> cases();
void gradient(GradientContext& c);

const Op& kScaleBias = register_op({.name = "scale_bias",
                                    .infer = infer,
                                    .gradient = gradient,
                                    .in_place = {{0, 0}},
                                    .cases = cases});
const Op& kGrad =
    register_op({.name = "scale_bias_grad", .infer = infer_grad, .in_place = {{0, 0}}});

void gradient(GradientContext& c) {
  const Node& node = c.node();
  auto a = std::make_shared<ScaleBiasGradAttributes>();
  a->scale = node.has_input(1);
  a->bias = node.has_input(2);
  const Tensor x = a->scale ? c.input(0) : Tensor{}, scale = a->scale ? c.input(1) : Tensor{};
  const Tensor dx = c.graph().append(kGrad, {c.output_gradient().value, x.value, scale.value}, a);
  c.set(0, dx);
  if (a->scale) c.set(1, dx.output(1));
  if (a->bias) c.set(2, dx.output(a->scale ? 2 : 1));
}

std::vector<Case> cases() {
  const auto of = [](Shape shape, bool has_scale, bool has_bias) {
    return [=](CaseBuilder& b) {
      const Tensor x = b.input(shape);
      const Tensor scale = has_scale ? b.input({shape[1]}) : Tensor{};
      const Tensor bias = has_bias ? b.input({shape[1]}) : Tensor{};
      return scale_bias(x, scale, bias);
    };
  };
  return {{"images", of({2, 5, 4, 3}, true, true)},
          {"images of 16 channels", of({2, 16, 3, 3}, true, true)},
          {"images, bias only", of({3, 7, 2, 4}, false, true)},
          {"images, scale only", of({2, 9, 3, 3}, true, false)},
          {"rows", of({6, 10}, true, true)},
          {"sequences", of({2, 5, 3}, true, true)},
          {"sequences of 16 channels, scale only", of({2, 16, 6}, true, false)},
          {"rows, bias only", of({6, 16}, false, true)},
          {"1x1 images", of({3, 5, 1, 1}, true, true)},
          {"one channel", of({2, 1, 4, 3}, true, true)},
          {"one channel of one 1x1 image, bias only", of({1, 1, 1, 1}, false, true)},
          {"1x4 images of 17 channels", of({2, 17, 1, 4}, true, true)},
          {"4x1 images, scale only", of({1, 16, 4, 1}, true, false)},
          {"rows of one", of({3, 1}, true, true)},
          {"one row", of({1, 7}, true, true)},
          {"many", of({4, 32, 16, 16}, true, true), /*small=*/false}};
}

}  // namespace

Tensor scale_bias(Tensor x, Tensor scale, Tensor bias, std::string name) {
  return x.graph->append(kScaleBias, {x.value, scale.value, bias.value}, nullptr, std::move(name));
}

}  // namespace crossbow
