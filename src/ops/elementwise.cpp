#include "ops/elementwise.h"

#include "graph/op.h"
#include "ops/activation.h"
#include "ops/expect.h"

namespace crossbow {
namespace {

std::vector<TensorType> infer(const Node&, std::span<const TensorType> in) {
  expect_same_shape(in[0], in[1], "a", "b");
  return {in[0]};
}

std::vector<Case> add_cases();
std::vector<Case> multiply_cases();
void add_gradient(GradientContext& c);
void multiply_gradient(GradientContext& c);

const Op& kAdd = register_op({.name = "add",
                              .infer = infer,
                              .gradient = add_gradient,
                              .in_place = {{0, 0}, {1, 0}},
                              .cases = add_cases});
const Op& kMultiply = register_op({.name = "multiply",
                                   .infer = infer,
                                   .gradient = multiply_gradient,
                                   .in_place = {{0, 0}, {1, 0}},
                                   .cases = multiply_cases});

void add_gradient(GradientContext& c) {
  const Node& node = c.node();
  Tensor dy = c.output_gradient();
  if (node.attrs<AddAttributes>().relu) {
    dy = activation_grad(dy, c.output(), Activation::relu);
  }
  c.set(0, dy);
  c.set(1, dy);
}

void multiply_gradient(GradientContext& c) {
  const Tensor dy = c.output_gradient();
  if (c.wanted(0)) c.set(0, multiply(dy, c.input(1)));
  if (c.wanted(1)) c.set(1, multiply(dy, c.input(0)));
}

Tensor append_add(Tensor a, Tensor b, bool relu) {
  auto attributes = std::make_shared<AddAttributes>();
  attributes->relu = relu;
  return a.graph->append(kAdd, {a.value, b.value}, attributes);
}

std::vector<Case> add_cases() {
  const auto of = [](Shape shape, bool relu) {
    return [=](CaseBuilder& b) {
      const Tensor first = b.input(shape), second = b.input(shape);
      return append_add(first, second, relu);
    };
  };
  const auto twice = [](CaseBuilder& b) {
    const Tensor x = b.input({2, 5});
    return add(x, x);
  };
  return {{"images", of({2, 5, 4, 3}, false)},
          {"images with relu", of({2, 17, 3, 3}, true)},
          {"rows", of({3, 17}, false)},
          {"rows with relu", of({4, 16}, true)},
          {"1x1 images", of({2, 17, 1, 1}, false)},
          {"1x1 images of 16 channels with relu", of({1, 16, 1, 1}, true)},
          {"one channel", of({2, 1, 3, 1}, true)},
          {"one value", of({1, 1}, false)},
          {"a tensor and itself", twice},
          {"many with relu", of({4, 32, 16, 16}, true), /*small=*/false}};
}

std::vector<Case> multiply_cases() {
  const auto of = [](Shape shape) {
    return [=](CaseBuilder& b) {
      const Tensor first = b.input(shape), second = b.input(shape);
      return multiply(first, second);
    };
  };
  const auto square = [](CaseBuilder& b) {
    const Tensor x = b.input({3, 7});
    return multiply(x, x);
  };
  return {{"images", of({2, 5, 4, 3})},
          {"images of 16 channels", of({2, 16, 3, 3})},
          {"rows", of({3, 17})},
          {"1x1 images", of({2, 17, 1, 1})},
          {"one channel", of({2, 1, 1, 5})},
          {"one value", of({1, 1})},
          {"square", square},
          {"many", of({4, 32, 16, 16}), /*small=*/false}};
}

}  // namespace

Tensor add(Tensor a, Tensor b) {
  return append_add(a, b, false);
}

Tensor multiply(Tensor a, Tensor b) {
  return a.graph->append(kMultiply, {a.value, b.value});
}

}  // namespace crossbow
