#include "ops/dropout.h"

#include "core/error.h"
#include "graph/op.h"
#include "ops/expect.h"

namespace crossbow {
namespace {

std::vector<TensorType> infer(const Node& node, std::span<const TensorType> in) {
  const float p = node.attrs<DropoutAttributes>().probability;
  if (!(p >= 0 && p < 1)) fail("dropout's probability {} must be in [0, 1)", p);
  expect_numbers(in[0], "x");
  return {in[0], {in[0].shape, DType::u8}};
}

std::vector<TensorType> infer_grad(const Node&, std::span<const TensorType> in) {
  return {in[0]};
}

std::vector<Case> cases();
void gradient(GradientContext& c);

const Op& kDropout = register_op({.name = "dropout",
                                  .infer = infer,
                                  .gradient = gradient,
                                  .in_place = {{0, 0}},
                                  .cases = cases});
const Op& kGrad = register_op({.name = "dropout_grad", .infer = infer_grad, .in_place = {{0, 0}}});

void gradient(GradientContext& c) {
  const Node& node = c.node();
  c.set(0,
        c.graph().append(kGrad, {c.output_gradient().value, c.output(1).value}, node.attributes));
}

std::vector<Case> cases() {
  const auto of = [](Shape shape, float probability) {
    return [=](CaseBuilder& b) { return dropout(b.input(shape), probability); };
  };
  const auto twice = [](CaseBuilder& b) {
    return dropout(dropout(b.input({4, 32}), 0.25f), 0.25f);
  };
  return {{"images, p 0.4", of({2, 5, 4, 4}, 0.4f)},
          {"images of 16 channels, p 0.3", of({2, 16, 3, 3}, 0.3f)},
          {"rows, p 0.5", of({5, 33}, 0.5f)},
          {"sequences, p 0.3", of({2, 5, 7}, 0.3f)},
          {"one number a row, p 0.3", of({40}, 0.3f)},
          {"1x1 images", of({3, 17, 1, 1}, 0.4f)},
          {"one channel, batch 1", of({1, 1, 3, 5}, 0.4f)},
          {"rows of one", of({8, 1}, 0.5f)},
          {"p 0", of({3, 8}, 0)},
          {"p 0.9", of({4, 25}, 0.9f)},
          {"two layers draw independently", twice},
          {"64 channels", of({4, 64, 16, 16}, 0.4f), /*small=*/false}};
}

}  // namespace

Tensor dropout(Tensor x, float probability, std::string name) {
  auto a = std::make_shared<DropoutAttributes>();
  a->probability = probability;
  a->layer = static_cast<uint32_t>(x.graph->find(kDropout.name).size());
  return x.graph->append(kDropout, {x.value}, a, std::move(name));
}

}  // namespace crossbow
