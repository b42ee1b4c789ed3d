#include "ops/activation.h"

#include "graph/op.h"
#include "ops/expect.h"

namespace crossbow {
namespace {

std::vector<TensorType> infer(const Node&, std::span<const TensorType> in) {
  expect_numbers(in[0], "x");
  return {in[0]};
}

std::vector<TensorType> infer_grad(const Node&, std::span<const TensorType> in) {
  expect_same_shape(in[0], in[1], "dy", "y");
  return {in[0]};
}

void gradient(GradientContext& c) {
  const Node& node = c.node();
  c.set(0, activation_grad(c.output_gradient(), c.output(),
                           node.attrs<ActivationAttributes>().activation));
}

std::shared_ptr<const Attributes> attributes(Activation a) {
  auto result = std::make_shared<ActivationAttributes>();
  result->activation = a;
  return result;
}

template <Tensor (*activation)(Tensor, std::string)>
std::vector<Case> cases() {
  const auto of = [](Shape shape, float range) {
    return [=](CaseBuilder& b) { return activation(b.input(shape, -range, range), {}); };
  };
  return {{"images", of({2, 5, 4, 3}, 2)},
          {"rows", of({3, 17}, 4)},
          {"1x1 images", of({2, 5, 1, 1}, 2)},
          {"one channel", of({1, 1, 4, 1}, 2)},
          {"rows of one", of({9, 1}, 2)},
          {"saturated", of({4, 64}, 30)},
          {"many", of({4, 32, 16, 16}, 2), /*small=*/false}};
}

template <Tensor (*activation)(Tensor, std::string)>
const Op& register_activation(std::string_view name) {
  return register_op({.name = name,
                      .infer = infer,
                      .gradient = gradient,
                      .in_place = {{0, 0}},
                      .cases = cases<activation>});
}

const Op& kRelu = register_activation<relu>("relu");
const Op& kRelu6 = register_activation<relu6>("relu6");
const Op& kSigmoid = register_activation<sigmoid>("sigmoid");
const Op& kTanh = register_activation<tanh>("tanh");
const Op& kGrad =
    register_op({.name = "activation_grad", .infer = infer_grad, .in_place = {{0, 0}}});

}  // namespace

std::string_view name_of(Activation a) {
  switch (a) {
    case Activation::none:
      return "none";
    case Activation::relu:
      return "relu";
    case Activation::relu6:
      return "relu6";
    case Activation::sigmoid:
      return "sigmoid";
    case Activation::tanh:
      return "tanh";
  }
  return "?";
}

Tensor relu(Tensor x, std::string name) {
  return x.graph->append(kRelu, {x.value}, attributes(Activation::relu), std::move(name));
}
Tensor relu6(Tensor x, std::string name) {
  return x.graph->append(kRelu6, {x.value}, attributes(Activation::relu6), std::move(name));
}
Tensor sigmoid(Tensor x, std::string name) {
  return x.graph->append(kSigmoid, {x.value}, attributes(Activation::sigmoid), std::move(name));
}
Tensor tanh(Tensor x, std::string name) {
  return x.graph->append(kTanh, {x.value}, attributes(Activation::tanh), std::move(name));
}
Tensor activation_grad(Tensor dy, Tensor y, Activation activation) {
  return dy.graph->append(kGrad, {dy.value, y.value}, attributes(activation));
}

}  // namespace crossbow
