#include "ops/conv2d.h"

#include "core/error.h"
#include "graph/op.h"
#include "ops/expect.h"

namespace crossbow {
namespace {

void expect_options(const Conv2dAttributes& a, const WindowAxes& axes) {
  if (!axes[0].is_valid() || !axes[1].is_valid() || a.groups < 1) {
    fail("stride {}, dilation {} and groups {} must be at least 1 and padding {} at least 0",
         a.stride.str(), a.dilation.str(), a.groups, a.padding.str());
  }
}

std::vector<TensorType> infer(const Node& node, std::span<const TensorType> in) {
  const auto& a = node.attrs<Conv2dAttributes>();
  expect_rank(in[0], 4, "x", "[N, C, H, W]");
  expect_rank(in[1], 4, "conv2d weights", "[outputs, C / groups, KH, KW]");
  const Shape &x = in[0].shape, &w = in[1].shape;
  const WindowAxes axes = a.axes(w);
  expect_options(a, axes);
  if (x[1] != w[1] * a.groups) {
    fail("conv2d weights {} in {} group{} need {} input channels, but x {} has {}", w.str(),
         a.groups, a.groups == 1 ? "" : "s", w[1] * a.groups, x.str(), x[1]);
  }
  if (w[0] % a.groups != 0) {
    fail("conv2d weights {} have {} outputs, which {} groups do not divide", w.str(), w[0],
         a.groups);
  }
  if (node.has_input(2)) {
    expect_vector(in[2], w[0], "bias", fmt::format("output of the weights {}", w.str()));
  }
  const Shape y{x[0], w[0], axes[0].positions(x[2]), axes[1].positions(x[3])};
  if (y[2] < 1 || y[3] < 1) {
    fail("conv2d weights {} with dilation {} are larger than x {} with padding {}", w.str(),
         a.dilation.str(), x.str(), a.padding.str());
  }
  return {{y}};
}

// What is computed (x or the weights) is an attribute, for several sizes give the same dy.
std::vector<TensorType> infer_grad_input(const Node& node, std::span<const TensorType>) {
  return {{node.attrs<Conv2dGradAttributes>().shape}};
}

std::vector<TensorType> infer_grad_weights(const Node& node, std::span<const TensorType>) {
  const auto& a = node.attrs<Conv2dGradAttributes>();
  std::vector<TensorType> outputs = {{a.shape}};
  if (a.with_bias) outputs.push_back({Shape{a.shape[0]}});
  return outputs;
}

/// Every element of y (or dy) meets every weight of its output channel once.
double products(const Shape& y, const Shape& weights) {
  return 2.0 * static_cast<double>(y.elements()) * static_cast<double>(weights.elements_from(1));
}

double flops(const Node& node, std::span<const TensorType> in) {
  return products(node.outputs[0].shape, in[1].shape);
}
double flops_grad_input(const Node&, std::span<const TensorType> in) {
  return products(in[0].shape, in[1].shape);
}
double flops_grad_weights(const Node& node, std::span<const TensorType> in) {
  return products(in[1].shape, node.outputs[0].shape);
}

std::vector<Case> cases();
void gradient(GradientContext& c);

const Op& kConv2d = register_op(
    {.name = "conv2d", .infer = infer, .gradient = gradient, .flops = flops, .cases = cases});
const Op& kGradInput = register_op(
    {.name = "conv2d_grad_input", .infer = infer_grad_input, .flops = flops_grad_input});
const Op& kGradWeights = register_op(
    {.name = "conv2d_grad_weights", .infer = infer_grad_weights, .flops = flops_grad_weights});

void gradient(GradientContext& c) {
  const Node& node = c.node();
  Conv2dGradAttributes a;
  static_cast<Conv2dAttributes&>(a) = node.attrs<Conv2dAttributes>();
  const Tensor x = c.input(0), weights = c.input(1), dy = c.output_gradient();
  a.with_bias = node.has_input(2) && c.wanted(2);
  if (c.wanted(1) || a.with_bias) {
    a.shape = weights.shape();
    const Tensor dw = c.graph().append(kGradWeights, {x.value, dy.value},
                                       std::make_shared<Conv2dGradAttributes>(a));
    c.set(1, dw);
    if (a.with_bias) c.set(2, dw.output(1));
  }
  if (c.wanted(0)) {
    a.shape = x.shape();
    a.with_bias = false;
    c.set(0, c.graph().append(kGradInput, {dy.value, weights.value},
                              std::make_shared<Conv2dGradAttributes>(a)));
  }
}

struct Sample {
  const char* name;
  Shape x, weights;
  bool bias;
  Size2 stride = 1;
  Padding padding = 0;
  Size2 dilation = 1;
  int64_t groups = 1;
  bool small = true;
};

Case make_case(const Sample& s) {
  const auto build = [s](CaseBuilder& b) {
    Conv2dAttributes a;
    a.stride = s.stride;
    a.padding = s.padding;
    a.dilation = s.dilation;
    a.groups = s.groups;
    const Tensor x = b.input(s.x), weights = b.input(s.weights);
    return conv2d(x, weights, s.bias ? b.input({s.weights[0]}) : Tensor{}, a);
  };
  return {s.name, build, s.small};
}

std::vector<Case> cases() {
  constexpr bool kBias = true, kPlain = false, kLarge = false;
  const Sample samples[] = {
      {"3x3 padded", {2, 8, 6, 6}, {8, 8, 3, 3}, kPlain, 1, 1},
      {"3x3 padded, bias", {2, 3, 7, 7}, {16, 3, 3, 3}, kBias, 1, 1},
      {"3x3, 17 to 5 channels", {2, 17, 5, 5}, {5, 17, 3, 3}, kBias, 1, 1},
      {"3x3, batch 1, rectangular", {1, 4, 9, 6}, {6, 4, 3, 3}, kPlain, 1, 1},
      {"3x3 stride 2, odd size", {2, 4, 7, 7}, {8, 4, 3, 3}, kPlain, 2, 1},
      {"3x3 stride 2, even size", {2, 4, 8, 8}, {8, 4, 3, 3}, kBias, 2, 1},
      {"3x3 stride 2 that leaves a border unread", {1, 3, 8, 6}, {4, 3, 3, 3}, kPlain, 2},
      {"5x5", {2, 1, 9, 9}, {6, 1, 5, 5}, kBias},
      {"1x1", {2, 8, 5, 5}, {12, 8, 1, 1}, kBias},
      {"1x1 stride 2", {2, 8, 6, 6}, {16, 8, 1, 1}, kPlain, 2},
      {"1x3 kernel", {2, 3, 5, 7}, {4, 3, 1, 3}, kBias},
      {"dilation 2", {1, 4, 8, 8}, {4, 4, 3, 3}, kBias, 1, 2, 2},
      {"groups 2", {2, 6, 5, 5}, {8, 3, 3, 3}, kBias, 1, 1, 1, 2},
      {"depthwise", {2, 8, 6, 6}, {8, 1, 3, 3}, kBias, 1, 1, 1, 8},
      {"depthwise stride 2", {1, 6, 7, 7}, {6, 1, 3, 3}, kPlain, 2, 1, 1, 6},
      {"kernel as large as the image", {3, 4, 4, 4}, {5, 4, 4, 4}, kPlain},
      {"1x1 map", {2, 6, 1, 1}, {5, 6, 1, 1}, kBias},
      {"1x1 map, padded", {2, 3, 1, 1}, {4, 3, 3, 3}, kBias, 1, 1},
      {"1x1 map, padded to several positions", {2, 16, 1, 1}, {16, 16, 2, 2}, kBias, 1, 1},
      {"1x5 map", {1, 3, 1, 5}, {7, 3, 3, 3}, kPlain, 1, 1},
      {"4x1 map, stride 2", {2, 16, 4, 1}, {3, 16, 3, 3}, kBias, 2, 1},
      {"one channel to one", {2, 1, 5, 4}, {1, 1, 3, 3}, kBias, 1, 1},
      {"one channel to one of one image, 1x1", {1, 1, 1, 1}, {1, 1, 1, 1}, kBias},
      {"17 channels to one", {1, 17, 3, 3}, {1, 17, 3, 3}, kPlain, 1, 1},
      {"one channel to 16", {2, 1, 3, 3}, {16, 1, 1, 1}, kBias},
      {"depthwise on a 1x1 map", {2, 3, 1, 1}, {3, 1, 3, 3}, kBias, 1, 1, 1, 3},
      {"depthwise 1x1, 16 channels", {1, 16, 1, 3}, {16, 1, 1, 1}, kPlain, 1, 0, 1, 16},
      {"1x7 kernel, padded", {2, 3, 4, 9}, {5, 3, 1, 7}, kBias, 1, {0, 3}},
      {"7x1 kernel, padded, 16 channels", {1, 16, 8, 2}, {3, 16, 7, 1}, kBias, 1, {3, 0}},
      {"3x5 kernel, strides 1 and 2", {2, 4, 5, 9}, {3, 4, 3, 5}, kPlain, {1, 2}, {1, 2}},
      {"strides 3 and 1, 16 channels", {1, 16, 8, 4}, {2, 16, 3, 3}, kBias, {3, 1}, 1},
      {"strides 1 and 3, width 2", {1, 16, 5, 2}, {2, 16, 3, 3}, kBias, {1, 3}, 1},
      {"strides 3 and 1, height 2", {1, 16, 2, 5}, {2, 16, 3, 3}, kBias, {3, 1}, 1},
      {"dilations 1 and 2", {1, 4, 6, 9}, {4, 4, 3, 3}, kBias, 1, {1, 2}, {1, 2}},
      {"dilations 3 and 1, 16 channels", {1, 16, 8, 4}, {2, 16, 3, 3}, kPlain, 1, {3, 1}, {3, 1}},
      {"dilation and stride differ", {2, 3, 9, 8}, {4, 3, 2, 3}, kBias, {2, 1}, 1, {1, 2}},
      {"3x3 padded on two sides only", {2, 4, 6, 8}, {3, 4, 3, 3}, kBias, 2, {0, 0, 1, 1}},
      {"3x3 padded by side, 16 channels", {1, 16, 5, 6}, {2, 16, 3, 3}, kBias, 1, {1, 0, 2, 1}},
      {"2x2 padded to the same size", {1, 16, 5, 4}, {3, 16, 2, 2}, kPlain, 1, {0, 0, 1, 1}},
      {"1x1 map, 1x3 kernel", {2, 3, 1, 1}, {4, 3, 1, 3}, kBias, 1, {0, 1}},
      {"1x1 map, 3x1 kernel, dilated", {1, 16, 1, 1}, {2, 16, 3, 1}, kBias, 2, {2, 0}, 2},
      {"1x6 map, 1x3 kernel of one channel", {2, 1, 1, 6}, {16, 1, 1, 3}, kBias, {1, 2}, {0, 1}},
      {"groups 2, 3x1 kernel", {2, 6, 6, 5}, {8, 3, 3, 1}, kBias, {2, 1}, {1, 0}, 1, 2},
      {"depthwise, 1x5 kernel", {1, 16, 3, 7}, {16, 1, 1, 5}, kBias, {1, 2}, {0, 2}, 1, 16},
      {"depthwise, dilated", {1, 6, 5, 7}, {6, 1, 3, 3}, kPlain, 1, {0, 1, 2, 3}, {1, 2}, 6},
      {"3x3, 32 to 48 channels", {4, 32, 8, 8}, {48, 32, 3, 3}, kBias, 1, 1, 1, 1, kLarge},
      {"3x3, 64 channels", {4, 64, 16, 16}, {64, 64, 3, 3}, kPlain, 1, 1, 1, 1, kLarge},
      {"3x3 stride 2, 16 to 32", {4, 16, 32, 32}, {32, 16, 3, 3}, kPlain, 2, 1, 1, 1, kLarge},
      {"1x1 stride 2, 32 to 64", {4, 32, 16, 16}, {64, 32, 1, 1}, kPlain, 2, 0, 1, 1, kLarge},
      {"5x5, 32 to 64 channels", {4, 32, 12, 12}, {64, 32, 5, 5}, kBias, 1, 0, 1, 1, kLarge},
      {"3x3, padded by side", {1, 64, 5, 6}, {64, 64, 3, 3}, kBias, 1, {1, 0, 0, 1}, 1, 1, kLarge},
      {"3x3, padded by axis", {1, 64, 5, 6}, {64, 64, 3, 3}, kBias, 1, {0, 1}, 1, 1, kLarge},
      {"1x7, 32 to 64 channels", {1, 32, 5, 14}, {64, 32, 1, 7}, kBias, 1, {0, 3}, 1, 1, kLarge},
      {"3x3, strides 2x1", {1, 32, 9, 14}, {48, 32, 3, 3}, kPlain, {2, 1}, 1, {1, 2}, 1, kLarge},
  };
  std::vector<Case> result;
  for (const Sample& s : samples) result.push_back(make_case(s));
  return result;
}

}  // namespace

Tensor conv2d(Tensor x, Tensor weights, Tensor bias, const Conv2dAttributes& attributes,
              std::string name) {
  return x.graph->append(kConv2d, {x.value, weights.value, bias.value},
                         std::make_shared<Conv2dAttributes>(attributes), std::move(name));
}

}  // namespace crossbow
