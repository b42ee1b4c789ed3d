#include "ops/shape_ops.h"

#include "core/error.h"
#include "graph/op.h"
#include "ops/expect.h"

namespace crossbow {
namespace {

Shape with_rows(int64_t rows, const Shape& row) {
  if (row.rank() >= Shape::kMaxRank) {
    fail("rows of shape {} have too many dimensions: at most {}", row.str(), Shape::kMaxRank - 1);
  }
  std::vector<int64_t> dims(row.begin(), row.end());
  dims.insert(dims.begin(), rows);
  return Shape(dims);
}

Shape row_of(const Shape& x) {
  return Shape(std::span(x.begin() + 1, x.end()));
}

std::vector<TensorType> infer_reshape(const Node& node, std::span<const TensorType> in) {
  expect_numbers(in[0], "x");
  const Shape &x = in[0].shape, &row = node.attrs<ReshapeAttributes>().shape;
  if (x.rank() < 1) fail("x must have a batch dimension, not be a scalar");
  if (row.elements() != x.elements_from(1)) {
    fail("rows of x {} have {} elements and cannot become {} with {}", x.str(), x.elements_from(1),
         row.str(), row.elements());
  }
  const TensorType y{with_rows(x[0], row)};
  expect_numbers(y, "y");
  return {y};
}

std::vector<TensorType> infer_concat(const Node&, std::span<const TensorType> in) {
  Shape y = in[0].shape;
  if (y.rank() < 2) fail("part 0 must be [N, C, ...], not {}", y.str());
  y[1] = 0;
  for (size_t i = 0; i < in.size(); ++i) {
    expect_numbers(in[i], fmt::format("part {}", i));
    Shape expected = in[0].shape;
    if (in[i].shape.rank() == expected.rank()) expected[1] = in[i].shape[1];
    if (in[i].shape != expected) {
      fail("part 0 {} and part {} {} must agree in all but dimension 1", in[0].shape.str(), i,
           in[i].shape.str());
    }
    y[1] += in[i].shape[1];
  }
  return {{y}};
}

std::vector<TensorType> infer_slice(const Node& node, std::span<const TensorType> in) {
  Shape part = in[0].shape;
  part[1] = node.attrs<SliceAttributes>().count;
  return {{part}};
}

std::vector<Case> reshape_cases();
std::vector<Case> concat_cases();
void reshape_gradient(GradientContext& c);
void concat_gradient(GradientContext& c);

const Op& kReshape = register_op({.name = "reshape",
                                  .infer = infer_reshape,
                                  .gradient = reshape_gradient,
                                  .in_place = {{0, 0}},
                                  .cases = reshape_cases});
const Op& kConcat = register_op(
    {.name = "concat", .infer = infer_concat, .gradient = concat_gradient, .cases = concat_cases});
const Op& kSlice = register_op({.name = "slice_channels", .infer = infer_slice});

void reshape_gradient(GradientContext& c) {
  c.set(0, reshape(c.output_gradient(), row_of(c.input(0).shape())));
}

void concat_gradient(GradientContext& c) {
  const Node& node = c.node();
  int64_t begin = 0;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const int part = static_cast<int>(i);
    const int64_t count = c.input(part).shape()[1];
    if (c.wanted(part)) {
      auto a = std::make_shared<SliceAttributes>();
      a->begin = begin;
      a->count = count;
      c.set(part, c.graph().append(kSlice, {c.output_gradient().value}, a));
    }
    begin += count;
  }
}

std::vector<Case> reshape_cases() {
  const auto of = [](Shape from, Shape row) {
    return [=](CaseBuilder& b) { return reshape(b.input(from), row); };
  };
  return {{"images to rows", of({2, 3, 4, 5}, {60})},
          {"images of 16 channels to rows", of({2, 16, 3, 3}, {144})},
          {"rows to images", of({3, 32}, {2, 4, 4})},
          {"1x1 images to rows", of({2, 5, 1, 1}, {5})},
          {"rows to 1x1 images", of({2, 16}, {16, 1, 1})},
          {"images of one channel to rows", of({1, 1, 3, 4}, {12})},
          {"1x1 images to images", of({2, 12, 1, 1}, {1, 3, 4})},
          {"one value", of({1, 1}, {1, 1, 1})},
          {"images to sequences", of({2, 4, 3, 6}, {8, 9})},
          {"sequences to images", of({2, 6, 4}, {3, 2, 4})},
          {"images to images", of({2, 4, 3, 6}, {8, 3, 3})}};
}

std::vector<Case> concat_cases() {
  const auto of = [](std::vector<Shape> shapes) {
    return [=](CaseBuilder& b) {
      std::vector<Tensor> parts;
      for (const Shape& s : shapes) parts.push_back(b.input(s));
      return concat(parts);
    };
  };
  const auto twice = [](CaseBuilder& b) {
    const Tensor x = b.input({2, 3, 2, 2});
    return concat({x, x});
  };
  return {{"two of images", of({{2, 5, 4, 3}, {2, 3, 4, 3}})},
          {"three of images", of({{2, 4, 3, 3}, {2, 17, 3, 3}, {2, 1, 3, 3}})},
          {"16 and 16 channels", of({{2, 16, 3, 3}, {2, 16, 3, 3}})},
          {"rows", of({{3, 7}, {3, 10}})},
          {"sequences", of({{2, 2, 3}, {2, 5, 3}})},
          {"1x1 images", of({{2, 3, 1, 1}, {2, 5, 1, 1}})},
          {"1x1 images of 16 channels", of({{2, 16, 1, 1}, {2, 32, 1, 1}})},
          {"one channel each", of({{1, 1, 2, 3}, {1, 1, 2, 3}})},
          {"1x3 images, 17 and 1 channels", of({{2, 17, 1, 3}, {2, 1, 1, 3}})},
          {"rows of one", of({{1, 1}, {1, 1}})},
          {"one part", of({{3, 7}})},
          {"a tensor and itself", twice},
          {"32 and 64 channels", of({{4, 32, 8, 8}, {4, 64, 8, 8}}), /*small=*/false}};
}

}  // namespace

Tensor reshape(Tensor x, Shape row_shape, std::string name) {
  auto a = std::make_shared<ReshapeAttributes>();
  a->shape = row_shape;
  return x.graph->append(kReshape, {x.value}, a, std::move(name));
}

Tensor flatten(Tensor x) {
  return reshape(x, {x.shape().elements_from(1)}, "flatten");
}

Tensor concat(const std::vector<Tensor>& parts, std::string name) {
  if (parts.empty()) fail("concat needs at least one tensor");
  std::vector<Value> values;
  for (const Tensor& t : parts) values.push_back(t.value);
  return parts[0].graph->append(kConcat, std::move(values), nullptr, std::move(name));
}

}  // namespace crossbow
