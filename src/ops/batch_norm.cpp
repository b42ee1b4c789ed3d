#include "ops/batch_norm.h"

#include "core/error.h"
#include "graph/op.h"
#include "graph/source.h"
#include "ops/expect.h"

namespace crossbow {
namespace {

enum Input { kX, kScale, kShift, kRunningMean, kRunningVariance, kResidual };

std::vector<TensorType> infer(const Node& node, std::span<const TensorType> in) {
  const auto& a = node.attrs<BatchNormAttributes>();
  if (!(a.epsilon > 0) || !(a.momentum >= 0 && a.momentum <= 1)) {
    fail("batch norm's epsilon {} must be above 0 and its momentum {} in [0, 1]", a.epsilon,
         a.momentum);
  }
  const TensorType& x = in[kX];
  expect_numbers(x, "x");
  if (x.shape.rank() != 2 && x.shape.rank() != 4) {
    fail("x must be [N, C] or [N, C, H, W], not {}", x.shape.str());
  }
  expect_per_channel(in[kScale], x, "scale");
  expect_per_channel(in[kShift], x, "shift");
  expect_per_channel(in[kRunningMean], x, "running mean");
  expect_per_channel(in[kRunningVariance], x, "running variance");
  if (node.has_input(kResidual)) expect_same_shape(x, in[kResidual], "x", "residual");
  const bool fits = a.activation == Activation::none || a.activation == Activation::relu ||
                    (a.activation == Activation::relu6 && !node.has_input(kResidual));
  if (!fits) {
    fail("batch norm{} does not take the activation '{}'; use an op of its own for it",
         node.has_input(kResidual) ? " with a residual" : "", name_of(a.activation));
  }
  if (!a.training) return {x};
  return {x, {Shape{x.shape[1]}}, {Shape{x.shape[1]}}};
}

std::vector<TensorType> infer_grad(const Node& node, std::span<const TensorType> in) {
  expect_same_shape(in[0], in[1], "dy", "x");
  std::vector<TensorType> outputs = {in[1], in[2], in[3]};
  if (node.attrs<BatchNormGradAttributes>().residual) outputs.push_back(in[1]);
  return outputs;
}

std::vector<Case> cases();
void gradient(GradientContext& c);
Tensor append(Tensor x, Tensor scale, Tensor shift, Tensor mean, Tensor variance, Tensor residual,
              const BatchNormAttributes& attributes, std::string name);

const Op& kBatchNorm =
    register_op({.name = "batch_norm", .infer = infer, .gradient = gradient, .cases = cases});
const Op& kGrad =
    register_op({.name = "batch_norm_grad", .infer = infer_grad, .in_place = {{0, 0}}});

/// By running statistics batch norm is linear in x: dx is what it makes of dy without mean and
/// shift.
void frozen_gradient(GradientContext& c) {
  const Node& node = c.node();
  const auto& a = node.attrs<BatchNormAttributes>();
  if (c.wanted(kScale) || c.wanted(kShift)) {
    fail(
        "layer {}: batch norm by running statistics has a gradient of x only: freeze its "
        "scale and shift, or leave `training`",
        node.name);
  }
  Tensor dy = c.output_gradient();
  if (a.activation != Activation::none) dy = activation_grad(dy, c.output(), a.activation);
  if (node.has_input(kResidual)) c.set(kResidual, dy);
  if (!c.wanted(kX)) return;
  BatchNormAttributes linear;
  linear.training = false;
  linear.epsilon = a.epsilon;
  const Tensor zero = fill(c.graph(), c.input(kScale).shape(), 0);
  c.set(kX, append(dy, c.input(kScale), zero, zero, c.input(kRunningVariance), {}, linear, {}));
}

void gradient(GradientContext& c) {
  const Node& node = c.node();
  if (!node.attrs<BatchNormAttributes>().training) return frozen_gradient(c);
  auto a = std::make_shared<BatchNormGradAttributes>();
  static_cast<BatchNormAttributes&>(*a) = node.attrs<BatchNormAttributes>();
  const Shape& x = c.input(kX).shape();
  if (x.elements() == x[1]) {
    fail(
        "layer {}: batch norm learns from more than one value for each channel, but x is {}; train "
        "on at least 2 rows at a time",
        node.name, x.str());
  }
  const bool has_residual = node.has_input(kResidual);
  const Tensor dy = c.output_gradient();
  a->residual = has_residual && a->activation != Activation::none;
  const Tensor y = a->residual ? c.output() : Tensor{};
  const Tensor dx =
      c.graph().append(kGrad,
                       {dy.value, c.input(kX).value, c.input(kScale).value, c.input(kShift).value,
                        c.output(1).value, c.output(2).value, y.value},
                       a);
  c.set(kX, dx);
  c.set(kScale, dx.output(1));
  c.set(kShift, dx.output(2));
  if (has_residual) c.set(kResidual, a->residual ? dx.output(3) : dy);
}

Tensor append(Tensor x, Tensor scale, Tensor shift, Tensor mean, Tensor variance, Tensor residual,
              const BatchNormAttributes& attributes, std::string name) {
  return x.graph->append(
      kBatchNorm, {x.value, scale.value, shift.value, mean.value, variance.value, residual.value},
      std::make_shared<BatchNormAttributes>(attributes), std::move(name));
}

enum Flags {
  kPlain = 0,
  kRelu = 1,
  kWithResidual = 2,
  kInference = 4,
  kLarge = 8,
  kRelu6 = 16,
  kFrozen = kInference | 32
};

Case make_case(const char* name, Shape shape, int flags, float epsilon = 1e-5f) {
  const bool training = !(flags & kInference), frozen = (flags & kFrozen) == kFrozen;
  const auto build = [=](CaseBuilder& b) {
    BatchNormAttributes a;
    a.training = training;
    if (flags & kRelu) a.activation = Activation::relu;
    if (flags & kRelu6) a.activation = Activation::relu6;
    a.epsilon = epsilon;
    const Shape channels{shape[1]};
    const Tensor x = b.input(shape, -1, 3);
    const float most = flags & kRelu6 ? 8.0f : 1.0f;
    const Tensor scale = frozen ? b.state(channels, 1.25f) : b.input(channels, 0.5f, 1.5f);
    const Tensor shift = frozen ? b.state(channels, most / 8) : b.input(channels, -1, most);
    const Tensor mean = b.state(channels, 0.75f), variance = b.state(channels, 1.5f);
    const Tensor residual = flags & kWithResidual ? b.input(shape) : Tensor{};
    return append(x, scale, shift, mean, variance, residual, a, {});
  };
  return {name, build, /*small=*/!(flags & kLarge), /*differentiable=*/training || frozen};
}

std::vector<Case> cases() {
  return {
      make_case("images", {3, 8, 4, 4}, kPlain),
      make_case("images of 17 channels", {2, 17, 3, 5}, kPlain),
      make_case("batch 1", {1, 4, 5, 5}, kPlain),
      make_case("rows", {8, 19}, kPlain),
      make_case("large epsilon", {2, 6, 4, 4}, kPlain, 0.1f),
      make_case("rows, relu", {8, 16}, kRelu),
      make_case("relu", {2, 16, 4, 4}, kRelu),
      make_case("relu, 5 channels", {2, 5, 4, 4}, kRelu),
      make_case("relu6", {2, 16, 4, 4}, kRelu6),
      make_case("relu6, 5 channels", {2, 5, 4, 4}, kRelu6),
      make_case("rows, relu6", {8, 19}, kRelu6),
      make_case("inference, relu6", {2, 16, 4, 4}, kInference | kRelu6),
      make_case("residual", {2, 6, 4, 4}, kWithResidual),
      make_case("residual, relu", {2, 16, 3, 3}, kWithResidual | kRelu),
      make_case("residual, relu, 5 channels", {2, 5, 4, 4}, kWithResidual | kRelu),
      make_case("inference", {2, 7, 4, 4}, kInference),
      make_case("inference, relu", {2, 16, 4, 4}, kInference | kRelu),
      make_case("inference, residual, relu", {2, 16, 4, 4}, kInference | kWithResidual | kRelu),
      make_case("inference, rows", {4, 10}, kInference),
      make_case("frozen", {2, 7, 4, 4}, kFrozen),
      make_case("frozen, batch 1", {1, 16, 4, 4}, kFrozen | kRelu),
      make_case("frozen, relu6", {2, 16, 4, 4}, kFrozen | kRelu6),
      make_case("frozen, rows, relu", {4, 10}, kFrozen | kRelu),
      make_case("frozen, residual", {2, 6, 4, 4}, kFrozen | kWithResidual),
      make_case("frozen, residual, relu", {2, 16, 3, 3}, kFrozen | kWithResidual | kRelu),
      make_case("1x1 images", {5, 7, 1, 1}, kPlain),
      make_case("1x1 images of 16 channels, residual, relu", {4, 16, 1, 1}, kWithResidual | kRelu),
      make_case("one channel, relu", {3, 1, 2, 5}, kRelu),
      make_case("one channel of 1x1 images", {6, 1, 1, 1}, kPlain),
      make_case("rows of one channel", {6, 1}, kRelu),
      make_case("1x4 images, batch 1", {1, 3, 1, 4}, kPlain),
      make_case("3x1 images of 17 channels", {2, 17, 3, 1}, kRelu),
      make_case("inference, 1x1 images, batch 1", {1, 5, 1, 1}, kInference | kRelu),
      make_case("64 channels, relu", {4, 64, 16, 16}, kRelu | kLarge),
      make_case("64 channels, relu6", {4, 64, 16, 16}, kRelu6 | kLarge),
      make_case("32 channels, residual, relu", {4, 32, 16, 16}, kWithResidual | kRelu | kLarge),
  };
}

}  // namespace

Tensor batch_norm(Tensor x, Tensor scale, Tensor shift, Tensor running_mean,
                  Tensor running_variance, const BatchNormAttributes& attributes,
                  std::string name) {
  return append(x, scale, shift, running_mean, running_variance, {}, attributes, std::move(name));
}

std::shared_ptr<const Attributes> by_running_statistics(const Node& node) {
  auto attributes = std::make_shared<BatchNormAttributes>(node.attrs<BatchNormAttributes>());
  attributes->training = false;
  return attributes;
}

}  // namespace crossbow
