#include "ops/sparse_dense.h"

#include "core/error.h"
#include "graph/op.h"
#include "ops/elementwise.h"
#include "ops/expect.h"
#include "ops/sparse_rows.h"

namespace crossbow {
namespace {

constexpr size_t kExtentsInput = 2, kWeights = 3, kBias = 4;

std::vector<TensorType> infer(const Node& node, std::span<const TensorType> in) {
  const int64_t features = node.attrs<SparseDenseAttributes>().features;
  expect_rank(in[kWeights], 2, "weights", "[outputs, features]");
  const Shape& w = in[kWeights].shape;
  if (w[1] != features) fail("weights {} need {} features, but x has {}", w.str(), w[1], features);
  if (node.has_input(kBias)) {
    expect_vector(in[kBias], w[0], "bias", fmt::format("output of the weights {}", w.str()));
  }
  return {{Shape{in[kExtentsInput].shape[0], w[0]}}};
}

std::vector<TensorType> infer_grad(const Node& node, std::span<const TensorType> in) {
  const auto& a = node.attrs<SparseDenseGradAttributes>();
  const int64_t outputs = in[3].shape[1];
  std::vector<TensorType> types = {{Shape{outputs, a.features}}};
  if (a.with_bias) types.push_back({Shape{outputs}});
  return types;
}

double products(const SparseDenseAttributes& a, const Shape& y) {
  return 2.0 * a.mean_numbers * static_cast<double>(y.elements());
}

double flops(const Node& node, std::span<const TensorType>) {
  return products(node.attrs<SparseDenseAttributes>(), node.outputs[0].shape);
}

double flops_grad(const Node& node, std::span<const TensorType> in) {
  return products(node.attrs<SparseDenseGradAttributes>(), in[3].shape);
}

std::vector<Case> cases();
void gradient(GradientContext& c);

const Op& kSparseDense = register_op(
    {.name = "sparse_dense", .infer = infer, .gradient = gradient, .flops = flops, .cases = cases});
const Op& kGradWeights =
    register_op({.name = "sparse_dense_grad_weights", .infer = infer_grad, .flops = flops_grad});

void gradient(GradientContext& c) {
  const Node& node = c.node();
  auto a = std::make_shared<SparseDenseGradAttributes>();
  static_cast<SparseDenseAttributes&>(*a) = node.attrs<SparseDenseAttributes>();
  a->with_bias = node.has_input(kBias) && c.wanted(static_cast<int>(kBias));
  const Tensor dw = c.graph().append(
      kGradWeights,
      {node.inputs[0], node.inputs[1], node.inputs[kExtentsInput], c.output_gradient().value}, a);
  c.set(static_cast<int>(kWeights), dw);
  if (a->with_bias) c.set(static_cast<int>(kBias), dw.output(1));
}

struct Sizes {
  int64_t rows, features, numbers;  // of a row, at most
};

Case make_case(const char* name, Sizes x, int64_t outputs, bool bias, bool small = true) {
  const auto build = [=](CaseBuilder& b) {
    auto room = std::make_shared<RowRoom>();
    for (int64_t r = 0; r <= x.rows; ++r) room->most.push_back(r * x.numbers);
    room->mean = static_cast<double>(x.numbers) / 2;
    const Tensor rows = sparse_rows(b.graph(), x.rows, x.features, room);
    const Tensor weights = b.input({outputs, x.features});
    return sparse_dense(rows, weights, bias ? b.input({outputs}) : Tensor{});
  };
  return {name, build, small};
}

/// Of the columns [2, 5) and [0, 2) of rows of 7.
Tensor slices(CaseBuilder& b) {
  const Tensor rows = sparse_rows(b.graph(), 4, 7, RowRoom::of_each(7));
  const Tensor some = sparse_dense(column_slice(rows, 2, 3), b.input({6, 3}), b.input({6}));
  return add(some, sparse_dense(column_slice(rows, 0, 2), b.input({6, 2}), {}));
}

std::vector<Case> cases() {
  return {
      {"slices", slices},

      make_case("without bias", {4, 9, 4}, 7, false),
      make_case("with bias", {4, 16, 7}, 10, true),
      make_case("batch 1", {1, 33, 9}, 5, true),
      make_case("one output", {3, 8, 3}, 1, true),
      make_case("two outputs", {5, 21, 13}, 2, true),
      make_case("two outputs, batch 1, without bias", {1, 40, 11}, 2, false),
      make_case("one feature to one, batch 1", {1, 1, 1}, 1, true),
      make_case("one feature", {3, 1, 1}, 6, true),
      make_case("all features", {4, 6, 6}, 17, true),
      make_case("33 outputs", {3, 12, 5}, 33, true),
      make_case("64 outputs", {2, 7, 3}, 64, false),
      make_case("5000 to 2", {16, 5000, 60}, 2, true, false),
      make_case("300 to 512", {64, 300, 20}, 512, true, false),
      make_case("300 to 1000, without bias", {48, 300, 200}, 1000, false, false),
      make_case("batch 700", {700, 11, 9}, 6, true, false),
  };
}

}  // namespace

Tensor sparse_dense(Tensor x, Tensor weights, Tensor bias, std::string name) {
  const auto rows = sparse_shape(x);
  if (!rows) fail("layer {}: x is no batch of sparse rows", name);
  auto a = std::make_shared<SparseDenseAttributes>();
  a->features = rows->features;
  a->mean_numbers = rows->mean_numbers;
  return x.graph->append(kSparseDense,
                         {x.value, x.output(1).value, x.output(2).value, weights.value, bias.value},
                         a, std::move(name));
}

}  // namespace crossbow
