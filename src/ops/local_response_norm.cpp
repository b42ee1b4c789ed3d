#include "ops/local_response_norm.h"

#include "core/error.h"
#include "graph/op.h"
#include "ops/expect.h"

namespace crossbow {
namespace {

std::vector<TensorType> infer(const Node& node, std::span<const TensorType> in) {
  const auto& a = node.attrs<LocalResponseNormAttributes>();
  expect_rank(in[0], 4, "x", "[N, C, H, W]");
  if (a.size < 1 || a.size % 2 == 0) {
    fail("local response norm's size {} must be odd, so that each channel is in the middle",
         a.size);
  }
  if (!(a.alpha >= 0) || !(a.k > 0)) {
    fail("local response norm's alpha {} must be at least 0 and its k {} above 0", a.alpha, a.k);
  }
  return {in[0], in[0]};
}

std::vector<TensorType> infer_grad(const Node&, std::span<const TensorType> in) {
  expect_same_shape(in[0], in[1], "dy", "x");
  return {in[1]};
}

/// A multiply-add for the sum and two for the power, an element.
double flops(const Node& node, std::span<const TensorType>) {
  return 6.0 * static_cast<double>(node.outputs[0].shape.elements());
}

std::vector<Case> cases();
void gradient(GradientContext& c);

const Op& kNorm = register_op({.name = "local_response_norm",
                               .infer = infer,
                               .gradient = gradient,
                               .flops = flops,
                               .cases = cases});
const Op& kGrad =
    register_op({.name = "local_response_norm_grad", .infer = infer_grad, .flops = flops});

void gradient(GradientContext& c) {
  c.set(0, c.graph().append(kGrad, {c.output_gradient().value, c.input(0).value, c.output(1).value},
                            c.node().attributes));
}

std::vector<Case> cases() {
  const auto of = [](Shape shape, LocalResponseNormAttributes a, float range = 2) {
    return [=](CaseBuilder& b) { return local_response_norm(b.input(shape, -range, range), a); };
  };
  const auto with = [](int64_t size, float alpha, float beta, float k) {
    LocalResponseNormAttributes a;
    a.size = size;
    a.alpha = alpha;
    a.beta = beta;
    a.k = k;
    return a;
  };
  return {{"7 channels", of({2, 7, 3, 4}, with(5, 0.5f, 0.75f, 1))},
          {"16 channels", of({2, 16, 3, 3}, with(5, 0.5f, 0.75f, 2))},
          {"17 channels", of({1, 17, 2, 3}, with(5, 1, 0.75f, 1))},
          {"32 channels", of({1, 32, 2, 2}, with(5, 1, 0.75f, 1))},
          {"48 channels, another beta", of({1, 48, 2, 2}, with(5, 0.5f, 0.5f, 1))},
          {"32 channels, 3 of them", of({1, 32, 2, 2}, with(3, 1, 0.75f, 1))},
          {"as AlexNet has it", of({1, 16, 3, 3}, with(5, 5e-4f, 0.75f, 2), 20)},
          {"beta 1", of({1, 5, 3, 2}, with(3, 0.5f, 1, 1))},
          {"one neighbour", of({2, 4, 2, 2}, with(1, 1, 0.75f, 1))},
          {"more neighbours than channels", of({2, 3, 2, 3}, with(9, 1, 0.75f, 1))},
          {"one channel", of({2, 1, 3, 2}, with(5, 1, 0.75f, 1))},
          {"1x1 map", of({3, 6, 1, 1}, with(5, 1, 0.75f, 1))},
          {"1x1 map of 32 channels", of({2, 32, 1, 1}, with(5, 1, 0.75f, 1))},
          {"1x5 map", of({1, 16, 1, 5}, with(5, 1, 0.75f, 1))},
          {"alpha 0", of({1, 4, 2, 2}, with(5, 0, 0.75f, 2))},
          {"64 channels", of({4, 64, 13, 9}, with(5, 0.5f, 0.75f, 1)), /*small=*/false}};
}

}  // namespace

Tensor local_response_norm(Tensor x, const LocalResponseNormAttributes& attributes,
                           std::string name) {
  return x.graph->append(
      kNorm, {x.value}, std::make_shared<LocalResponseNormAttributes>(attributes), std::move(name));
}

}  // namespace crossbow
