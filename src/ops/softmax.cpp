#include "ops/softmax.h"

#include "graph/op.h"
#include "ops/expect.h"

namespace crossbow {
namespace {

std::vector<TensorType> infer(const Node&, std::span<const TensorType> in) {
  expect_rank(in[0], 2, "x", "[N, C]");
  return {in[0]};
}

std::vector<TensorType> infer_grad(const Node&, std::span<const TensorType> in) {
  expect_same_shape(in[0], in[1], "dy", "y");
  return {in[0]};
}

std::vector<Case> cases();
void gradient(GradientContext& c);

const Op& kSoftmax =
    register_op({.name = "softmax", .infer = infer, .gradient = gradient, .cases = cases});
const Op& kGrad = register_op({.name = "softmax_grad", .infer = infer_grad});

void gradient(GradientContext& c) {
  c.set(0, c.graph().append(kGrad, {c.output_gradient().value, c.output().value}));
}

std::vector<Case> cases() {
  const auto of = [](Shape shape, float range) {
    return [=](CaseBuilder& b) { return softmax(b.input(shape, -range, range)); };
  };
  return {{"10 classes", of({4, 10}, 2)},
          {"17 classes", of({3, 17}, 1)},
          {"one class", of({3, 1}, 1)},
          {"one row", of({1, 5}, 1)},
          {"one row of one class", of({1, 1}, 1)},
          {"large values", of({4, 8}, 50)},
          {"1000 classes", of({16, 1000}, 4), /*small=*/false}};
}

}  // namespace

Tensor softmax(Tensor x) {
  return x.graph->append(kSoftmax, {x.value});
}

}  // namespace crossbow
