#include "ops/dense.h"

#include "core/error.h"
#include "graph/op.h"
#include "ops/expect.h"

namespace crossbow {
namespace {

std::vector<TensorType> infer(const Node& node, std::span<const TensorType> in) {
  expect_numbers(in[0], "x");
  expect_rank(in[1], 2, "dense weights", "[outputs, inputs]");
  const Shape &x = in[0].shape, &w = in[1].shape;
  if (x.rank() < 2) fail("x must be [N, C] or [N, C, H, W], not {}", x.str());
  if (x.elements_from(1) != w[1]) {
    fail("dense weights {} need {} inputs per row, but x {} has {}", w.str(), w[1], x.str(),
         x.elements_from(1));
  }
  if (node.has_input(2)) {
    expect_vector(in[2], w[0], "bias", fmt::format("output of the weights {}", w.str()));
  }
  return {{Shape{x[0], w[0]}}};
}

std::vector<TensorType> infer_grad_input(const Node& node, std::span<const TensorType>) {
  return {{node.attrs<DenseGradInputAttributes>().shape}};
}

std::vector<TensorType> infer_grad_weights(const Node& node, std::span<const TensorType> in) {
  const Shape &x = in[0].shape, &dy = in[1].shape;
  std::vector<TensorType> outputs = {{Shape{dy[1], x.elements_from(1)}}};
  if (node.attrs<DenseGradWeightsAttributes>().with_bias) outputs.push_back({Shape{dy[1]}});
  return outputs;
}

double products(int64_t rows, const Shape& weights) {
  return 2.0 * static_cast<double>(rows) * static_cast<double>(weights.elements());
}

/// dense(x, w, …) and dense_grad_input(dy, w).
double flops(const Node&, std::span<const TensorType> in) {
  return products(in[0].shape[0], in[1].shape);
}
double flops_grad_weights(const Node& node, std::span<const TensorType> in) {
  return products(in[0].shape[0], node.outputs[0].shape);
}

std::vector<Case> cases();
void gradient(GradientContext& c);

const Op& kDense = register_op(
    {.name = "dense", .infer = infer, .gradient = gradient, .flops = flops, .cases = cases});
const Op& kGradInput =
    register_op({.name = "dense_grad_input", .infer = infer_grad_input, .flops = flops});
const Op& kGradWeights = register_op(
    {.name = "dense_grad_weights", .infer = infer_grad_weights, .flops = flops_grad_weights});

void gradient(GradientContext& c) {
  const Node& node = c.node();
  const Tensor x = c.input(0), weights = c.input(1);
  Tensor dy = c.output_gradient();
  const Activation activation = node.attrs<DenseAttributes>().activation;
  if (activation != Activation::none) {
    dy = activation_grad(dy, c.output(), activation);
  }
  // Before the gradient of the weights, whose kernel may then update them.
  if (c.wanted(0)) {
    auto a = std::make_shared<DenseGradInputAttributes>();
    a->shape = x.shape();
    c.set(0, c.graph().append(kGradInput, {dy.value, weights.value}, a));
  }
  const bool with_bias = node.has_input(2) && c.wanted(2);
  if (c.wanted(1) || with_bias) {
    auto a = std::make_shared<DenseGradWeightsAttributes>();
    a->with_bias = with_bias;
    const Tensor dw = c.graph().append(kGradWeights, {x.value, dy.value}, a);
    c.set(1, dw);
    if (with_bias) c.set(2, dw.output(1));
  }
}

Tensor append(Tensor x, Tensor weights, Tensor bias, Activation activation, std::string name) {
  auto a = std::make_shared<DenseAttributes>();
  a->activation = activation;
  return x.graph->append(kDense, {x.value, weights.value, bias.value}, a, std::move(name));
}

Case make_case(const char* name, Shape x, int64_t outputs, bool bias,
               Activation activation = Activation::none, bool small = true) {
  const auto build = [=](CaseBuilder& b) {
    const Tensor input = b.input(x), weights = b.input({outputs, x.elements_from(1)});
    return append(input, weights, bias ? b.input({outputs}) : Tensor{}, activation, {});
  };
  return {name, build, small};
}

std::vector<Case> cases() {
  return {
      make_case("without bias", {4, 9}, 7, false),
      make_case("with bias", {4, 16}, 10, true),
      make_case("batch 1", {1, 33}, 5, true),
      make_case("one output", {3, 8}, 1, true),
      make_case("images", {2, 3, 4, 5}, 6, true),
      make_case("images of 16 channels", {2, 16, 3, 3}, 5, true),
      make_case("one feature to one, batch 1", {1, 1}, 1, true),
      make_case("one feature", {3, 1}, 6, true),
      make_case("batch 1 to one output, without bias", {1, 16}, 1, false),
      make_case("1x1 images", {2, 17, 1, 1}, 3, true),
      make_case("1x1 images of one channel", {1, 1, 1, 1}, 5, true),
      make_case("one channel", {2, 1, 3, 1}, 16, true),
      make_case("one output with sigmoid", {16, 9}, 1, true, Activation::sigmoid),
      make_case("with relu", {4, 12}, 9, true, Activation::relu),
      make_case("with relu6", {4, 40}, 9, true, Activation::relu6),
      make_case("with sigmoid", {4, 12}, 9, true, Activation::sigmoid),
      make_case("with tanh, without bias", {3, 10}, 6, false, Activation::tanh),
      make_case("images with relu", {2, 8, 3, 3}, 4, true, Activation::relu),
      make_case("512 to 512 with sigmoid", {16, 512}, 512, true, Activation::sigmoid, false),
      make_case("13 rows, 300 to 64 with relu", {13, 300}, 64, true, Activation::relu, false),
      make_case("7 rows, 40 to 100 with relu6", {7, 40}, 100, false, Activation::relu6, false),
      make_case("batch 1, 40 to 64", {1, 40}, 64, true, Activation::none, false),
      make_case("images, 1024 to 1000", {4, 64, 4, 4}, 1000, true, Activation::none, false),
      make_case("33 rows with relu", {33, 20}, 18, true, Activation::relu, false),
      make_case("64 rows, 1024 to 40", {64, 1024}, 40, true, Activation::none, false),
  };
}

}  // namespace

Tensor dense(Tensor x, Tensor weights, Tensor bias, std::string name) {
  return append(x, weights, bias, Activation::none, std::move(name));
}

}  // namespace crossbow
