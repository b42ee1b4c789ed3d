#include "ops/batch_norm.h"

#include "core/error.h"
#include "graph/op.h"
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
    fail("x must be [N, C] or [N, C, H, W], but is {}", x.shape.str());
  }
  expect_per_channel(in[kScale], x, "scale");
  expect_per_channel(in[kShift], x, "shift");
  expect_per_channel(in[kRunningMean], x, "running mean");
  expect_per_channel(in[kRunningVariance], x, "running variance");
  if (node.has_input(kResidual)) expect_same_shape(x, in[kResidual], "x", "residual");
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

const Op& kBatchNorm =
    register_op({.name = "batch_norm", .infer = infer, .gradient = gradient, .cases = cases});
const Op& kGrad =
    register_op({.name = "batch_norm_grad", .infer = infer_grad, .in_place = {{0, 0}}});

void gradient(GradientContext& c) {
  const Node& node = c.node();
  auto a = std::make_shared<BatchNormGradAttributes>();
  static_cast<BatchNormAttributes&>(*a) = node.attrs<BatchNormAttributes>();
  if (!a->training) fail("layer {}: batch norm is differentiated in training only", node.name);
  const bool has_residual = node.has_input(kResidual);
  const Tensor dy = c.output_gradient();
  a->residual = has_residual && a->relu;
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

struct Sample {
  const char* name;
  Shape x;
  bool residual = false, relu = false, training = true;
  float epsilon = 1e-5f;
  bool small = true;
};

Case make_case(const Sample& s) {
  const auto build = [s](CaseBuilder& b) {
    BatchNormAttributes a;
    a.training = s.training;
    a.relu = s.relu;
    a.epsilon = s.epsilon;
    const Shape channels{s.x[1]};
    const Tensor x = b.input(s.x, -1, 3), scale = b.input(channels, 0.5f, 1.5f),
                 shift = b.input(channels);
    const Tensor mean = b.state(channels, 0.75f), variance = b.state(channels, 1.5f);
    return append(x, scale, shift, mean, variance, s.residual ? b.input(s.x) : Tensor{}, a, {});
  };
  return {s.name, build, s.small, /*differentiable=*/s.training};
}

std::vector<Case> cases() {
  const Sample samples[] = {
      {.name = "images", .x = {3, 8, 4, 4}},
      {.name = "images of 17 channels", .x = {2, 17, 3, 5}},
      {.name = "batch 1", .x = {1, 4, 5, 5}},
      {.name = "rows", .x = {8, 19}},
      {.name = "rows with relu", .x = {8, 16}, .relu = true},
      {.name = "relu", .x = {2, 16, 4, 4}, .relu = true},
      {.name = "relu, 5 channels", .x = {2, 5, 4, 4}, .relu = true},
      {.name = "residual and relu", .x = {2, 16, 3, 3}, .residual = true, .relu = true},
      {.name = "residual and relu, 5 channels", .x = {2, 5, 4, 4}, .residual = true, .relu = true},
      {.name = "residual without relu", .x = {2, 6, 4, 4}, .residual = true},
      {.name = "large epsilon", .x = {2, 6, 4, 4}, .epsilon = 0.1f},
      {.name = "inference", .x = {2, 7, 4, 4}, .training = false},
      {.name = "inference with relu", .x = {2, 16, 4, 4}, .relu = true, .training = false},
      {.name = "inference with residual and relu",
       .x = {2, 16, 4, 4},
       .residual = true,
       .relu = true,
       .training = false},
      {.name = "inference of rows", .x = {4, 10}, .training = false},
      {.name = "64 channels with relu", .x = {4, 64, 16, 16}, .relu = true, .small = false},
      {.name = "32 channels, residual and relu",
       .x = {4, 32, 16, 16},
       .residual = true,
       .relu = true,
       .small = false},
  };
  std::vector<Case> result;
  for (const Sample& s : samples) result.push_back(make_case(s));
  return result;
}

}  // namespace

Tensor batch_norm(Tensor x, Tensor scale, Tensor shift, Tensor running_mean,
                  Tensor running_variance, const BatchNormAttributes& attributes,
                  std::string name) {
  return append(x, scale, shift, running_mean, running_variance, {}, attributes, std::move(name));
}

}  // namespace crossbow
