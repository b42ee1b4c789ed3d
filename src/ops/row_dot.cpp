#include "ops/row_dot.h"

#include <cmath>

#include "core/error.h"
#include "graph/op.h"
#include "ops/expect.h"

namespace crossbow {
namespace {

std::vector<TensorType> infer_dot(const Node&, std::span<const TensorType> in) {
  expect_rank(in[0], 2, "a", "[N, C]");
  expect_same_shape(in[0], in[1], "a", "b");
  return {{Shape{in[0].shape[0], 1}}};
}

std::vector<TensorType> infer_dot_grad(const Node&, std::span<const TensorType> in) {
  return {in[1], in[2]};
}

double flops_dot(const Node&, std::span<const TensorType> in) {
  return 2 * static_cast<double>(in[0].shape.elements());
}

double flops_dot_grad(const Node&, std::span<const TensorType> in) {
  return 2 * static_cast<double>(in[1].shape.elements());
}

std::vector<TensorType> infer_decay(const Node& node, std::span<const TensorType> in) {
  const float decay = node.attrs<RowDecayAttributes>().decay;
  if (!(decay >= 0 && std::isfinite(decay))) fail("the decay {} is no number from 0 on", decay);
  return {in[0]};
}

std::vector<Case> dot_cases();
std::vector<Case> decay_cases();
void dot_gradient(GradientContext& c);
void decay_gradient(GradientContext& c);

const Op& kDot = register_op({.name = "row_dot",
                              .infer = infer_dot,
                              .gradient = dot_gradient,
                              .flops = flops_dot,
                              .cases = dot_cases});
const Op& kDotGrad =
    register_op({.name = "row_dot_grad", .infer = infer_dot_grad, .flops = flops_dot_grad});
const Op& kDecay = register_op({.name = "row_decay",
                                .infer = infer_decay,
                                .gradient = decay_gradient,
                                .in_place = {{0, 0}},
                                .cases = decay_cases});
const Op& kDecayGrad =
    register_op({.name = "row_decay_grad", .infer = infer_decay, .in_place = {{0, 0}}});

void dot_gradient(GradientContext& c) {
  const Node& node = c.node();
  const Tensor da =
      c.graph().append(kDotGrad, {c.output_gradient().value, node.inputs[0], node.inputs[1]});
  c.set(0, da);
  c.set(1, da.output(1));
}

void decay_gradient(GradientContext& c) {
  const Node& node = c.node();
  c.set(0,
        c.graph().append(kDecayGrad, {c.output_gradient().value, node.inputs[0]}, node.attributes));
}

std::vector<Case> dot_cases() {
  const auto of = [](Shape shape) {
    return [=](CaseBuilder& b) {
      const Tensor first = b.input(shape), second = b.input(shape);
      return row_dot(first, second);
    };
  };
  const auto square = [](CaseBuilder& b) {
    const Tensor x = b.input({3, 7});
    return row_dot(x, x);
  };
  return {{"32 factors", of({4, 32})}, {"17 factors, batch 1", of({1, 17})},
          {"one factor", of({5, 1})},  {"one value", of({1, 1})},
          {"square", square},          {"many", of({700, 100}), /*small=*/false}};
}

/// Without decay, whose part of the gradient is none of the output's.
std::vector<Case> decay_cases() {
  const auto of = [](Shape shape) {
    return [=](CaseBuilder& b) { return row_decay(b.input(shape), 0); };
  };
  return {{"rows", of({3, 17})}, {"images", of({2, 5, 4, 3})}, {"one value", of({1, 1})}};
}

}  // namespace

Tensor row_dot(Tensor a, Tensor b) {
  return a.graph->append(kDot, {a.value, b.value});
}

Tensor row_decay(Tensor x, float decay) {
  auto attributes = std::make_shared<RowDecayAttributes>();
  attributes->decay = decay;
  return x.graph->append(kDecay, {x.value}, attributes);
}

}  // namespace crossbow
