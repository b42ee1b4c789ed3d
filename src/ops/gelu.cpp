#include "ops/gelu.h"

#include "graph/op.h"
#include "ops/expect.h"

namespace crossbow {
namespace {

std::vector<TensorType> infer(const Node&, std::span<const TensorType> in) {
  expect_numbers(in[0], "x");
  return {in[0]};
}

std::vector<TensorType> infer_grad(const Node&, std::span<const TensorType> in) {
  expect_same_shape(in[0], in[1], "dy", "x");
  return {in[0]};
}

std::vector<Case> cases();
void gradient(GradientContext& c);

const Op& kGelu = register_op(
    {.name = "gelu", .infer = infer, .gradient = gradient, .in_place = {{0, 0}}, .cases = cases});
const Op& kGrad = register_op({.name = "gelu_grad", .infer = infer_grad, .in_place = {{0, 0}}});

void gradient(GradientContext& c) {
  const Tensor dy = c.output_gradient(), x = c.input(0);
  c.set(0, c.graph().append(kGrad, {dy.value, x.value}, c.node().attributes));
}

std::vector<Case> cases() {
  std::vector<Case> result;
  for (const auto approximate : {GeluApproximation::none, GeluApproximation::tanh}) {
    const auto add = [&](const std::string& name, Shape shape, float range, bool small = true) {
      const bool exact = approximate == GeluApproximation::none;
      result.push_back(
          {name + (exact ? "" : ", tanh"),
           [=](CaseBuilder& b) { return gelu(b.input(shape, -range, range), approximate); },
           small});
    };
    add("images", {2, 5, 4, 3}, 2);
    add("rows", {3, 17}, 4);
    add("one element", {1, 1}, 2);
    add("saturated", {4, 64}, 30);
    add("many", {4, 32, 16, 16}, 2, /*small=*/false);
  }
  return result;
}

}  // namespace

Tensor gelu(Tensor x, GeluApproximation approximate, std::string name) {
  auto a = std::make_shared<GeluAttributes>();
  a->approximate = approximate;
  return x.graph->append(kGelu, {x.value}, a, std::move(name));
}

}  // namespace crossbow
