#include "ops/loss.h"

#include "core/error.h"
#include "graph/op.h"
#include "graph/source.h"
#include "ops/elementwise.h"
#include "ops/expect.h"

namespace crossbow {
namespace {

std::vector<TensorType> infer_cross_entropy(const Node& node, std::span<const TensorType> in) {
  const float s = node.attrs<CrossEntropyAttributes>().label_smoothing;
  if (!(s >= 0 && s < 1)) fail("the label smoothing {} must be in [0, 1)", s);
  expect_rank(in[0], 2, "logits", "[N, classes]");
  expect_labels(in[1], in[0]);
  return {{Shape{}}, in[0]};
}

/// `targets` may be labels, if x has rows to choose a column of.
void expect_targets(const TensorType& targets, const TensorType& x, std::string_view x_name) {
  if (targets.dtype == DType::f32) return expect_same_shape(x, targets, x_name, "targets");
  expect_rank(x, 2, x_name, "[N, classes] where the targets are labels");
  expect_labels(targets, x);
}

std::vector<TensorType> infer_sigmoid(const Node&, std::span<const TensorType> in) {
  expect_rank(in[0], 2, "logits", "[N, classes]");
  expect_targets(in[1], in[0], "logits");
  return {{Shape{}}};
}

std::vector<TensorType> infer_squared_error(const Node&, std::span<const TensorType> in) {
  expect_targets(in[1], in[0], "x");
  return {{Shape{}}};
}

std::vector<TensorType> infer_accuracy(const Node& node, std::span<const TensorType> in) {
  expect_rank(in[0], 2, "logits", "[N, classes]");
  expect_labels(in[1], in[0]);
  const int64_t k = node.attrs<AccuracyAttributes>().top_k, classes = in[0].shape[1];
  if (k < 1 || k > classes) fail("top-{} accuracy needs k in 1 to {}, the classes", k, classes);
  return {{Shape{}}};
}

std::vector<TensorType> infer_binary_accuracy(const Node&, std::span<const TensorType> in) {
  expect_rank(in[0], 2, "logits", "[N, 1]");
  if (in[0].shape[1] != 1) fail("logits must be [N, 1], not {}", in[0].shape.str());
  expect_labels(in[1], in[0]);
  return {{Shape{}}};
}

std::vector<TensorType> infer_precision(const Node&, std::span<const TensorType> in) {
  expect_rank(in[0], 2, "logits", "[N, classes]");
  expect_same_shape(in[0], in[1], "logits", "targets");
  return {{Shape{}}};
}

/// Of the three gradient ops (g, values, targets or labels).
std::vector<TensorType> infer_grad(const Node&, std::span<const TensorType> in) {
  return {in[1]};
}

std::vector<Case> cross_entropy_cases();
std::vector<Case> sigmoid_cases();
std::vector<Case> squared_error_cases();
std::vector<Case> accuracy_cases();
std::vector<Case> binary_accuracy_cases();
std::vector<Case> precision_cases();
void cross_entropy_gradient(GradientContext& c);
void sigmoid_gradient(GradientContext& c);
void squared_error_gradient(GradientContext& c);

const Op& kCrossEntropy = register_op({.name = "softmax_cross_entropy",
                                       .infer = infer_cross_entropy,
                                       .gradient = cross_entropy_gradient,
                                       .cases = cross_entropy_cases});
const Op& kCrossEntropyGrad =
    register_op({.name = "softmax_cross_entropy_grad", .infer = infer_grad});
const Op& kSigmoid = register_op({.name = "sigmoid_cross_entropy",
                                  .infer = infer_sigmoid,
                                  .gradient = sigmoid_gradient,
                                  .cases = sigmoid_cases});
const Op& kSigmoidGrad = register_op({.name = "sigmoid_cross_entropy_grad", .infer = infer_grad});
const Op& kSquaredError = register_op({.name = "mean_squared_error",
                                       .infer = infer_squared_error,
                                       .gradient = squared_error_gradient,
                                       .cases = squared_error_cases});
const Op& kSquaredErrorGrad = register_op({.name = "mean_squared_error_grad", .infer = infer_grad});
const Op& kAccuracy =
    register_op({.name = "accuracy", .infer = infer_accuracy, .cases = accuracy_cases});
const Op& kBinaryAccuracy = register_op(
    {.name = "binary_accuracy", .infer = infer_binary_accuracy, .cases = binary_accuracy_cases});
const Op& kPrecision =
    register_op({.name = "precision_at_1", .infer = infer_precision, .cases = precision_cases});

/// `values` is what the op reads beside the loss's gradient and the targets.
void set_gradient(GradientContext& c, const Op& op, Tensor values) {
  const Node& node = c.node();
  if (c.wanted(1)) {
    fail(
        "layer {}: a loss is not differentiated with respect to its targets, but they depend on "
        "parameters",
        node.name);
  }
  c.set(0, c.graph().append(op, {c.output_gradient().value, values.value, c.input(1).value},
                            node.attributes));
}

void cross_entropy_gradient(GradientContext& c) {
  if (c.output_gradient(1)) {
    fail("layer {}: the loss's probabilities are not differentiated; use softmax for that",
         c.node().name);
  }
  set_gradient(c, kCrossEntropyGrad, c.output(1));
}

void sigmoid_gradient(GradientContext& c) {
  set_gradient(c, kSigmoidGrad, c.input(0));
}

void squared_error_gradient(GradientContext& c) {
  set_gradient(c, kSquaredErrorGrad, c.input(0));
}

std::vector<Case> cross_entropy_cases() {
  const auto of = [](Shape shape, float range, float smoothing) {
    return [=](CaseBuilder& b) {
      const Tensor logits = b.input(shape, -range, range);
      return softmax_cross_entropy(logits, b.labels(shape[0], shape[1]), smoothing);
    };
  };
  return {{"10 classes", of({4, 10}, 2, 0)},
          {"17 classes, smoothed", of({5, 17}, 2, 0.1f)},
          {"2 classes, batch 1", of({1, 2}, 1, 0)},
          {"1 class", of({3, 1}, 1, 0)},
          {"1 class, batch 1, smoothed", of({1, 1}, 1, 0.1f)},
          {"large logits", of({4, 10}, 60, 0)},
          {"1000 classes, smoothed", of({16, 1000}, 4, 0.2f), /*small=*/false}};
}

std::vector<Case> sigmoid_cases() {
  const auto of = [](Shape shape, float range, bool labels = false) {
    return [=](CaseBuilder& b) {
      const Tensor logits = b.input(shape, -range, range);
      return sigmoid_cross_entropy(logits,
                                   labels ? b.labels(shape[0], shape[1]) : b.targets(shape));
    };
  };
  constexpr bool kLabels = true;
  return {{"10 labels", of({4, 10}, 2)},
          {"1 label", of({5, 1}, 2)},
          {"1 label, batch 1", of({1, 1}, 2)},
          {"large logits", of({3, 17}, 90)},
          {"10 classes", of({4, 10}, 2, kLabels)},
          {"one logit for two classes", of({7, 1}, 2, kLabels)},
          {"17 classes, batch 1, large logits", of({1, 17}, 90, kLabels)},
          {"1000 labels", of({16, 1000}, 4), /*small=*/false},
          {"1000 classes", of({16, 1000}, 4, kLabels), /*small=*/false}};
}

std::vector<Case> squared_error_cases() {
  const auto of = [](Shape shape) {
    return [=](CaseBuilder& b) {
      const Tensor x = b.input(shape);
      return mean_squared_error(x, b.targets(shape));
    };
  };
  const auto of_classes = [](Shape shape) {
    return [=](CaseBuilder& b) {
      const Tensor x = b.input(shape);
      return mean_squared_error(x, b.labels(shape[0], shape[1]));
    };
  };
  return {{"rows", of({4, 7})},
          {"images", of({2, 3, 4, 5})},
          {"images of 16 channels", of({2, 16, 3, 3})},
          {"1x1 images", of({2, 17, 1, 1})},
          {"one value", of({1, 1})},
          {"10 classes", of_classes({4, 10})},
          {"one column for two classes", of_classes({7, 1})},
          {"1000 classes", of_classes({16, 1000}), /*small=*/false},
          {"many rows", of({16, 1000}), /*small=*/false}};
}

std::vector<Case> accuracy_cases() {
  const auto of = [](Shape shape, int64_t top_k) {
    return [=](CaseBuilder& b) {
      const Tensor logits = b.input(shape);
      return accuracy(logits, b.labels(shape[0], shape[1]), top_k);
    };
  };
  return {{"top 1", of({32, 4}, 1)},
          {"top 5", of({16, 20}, 5)},
          {"top 1 of 1", of({3, 1}, 1)},
          {"batch 1", of({1, 4}, 1)},
          {"all", of({4, 6}, 6)}};
}

std::vector<Case> binary_accuracy_cases() {
  const auto of = [](int64_t rows) {
    return [=](CaseBuilder& b) {
      const Tensor logits = b.input({rows, 1});
      return binary_accuracy(logits, b.labels(rows, 2));
    };
  };
  return {{"17 rows", of(17)}, {"batch 1", of(1)}};
}

std::vector<Case> precision_cases() {
  const auto of = [](Shape shape) {
    return [=](CaseBuilder& b) {
      const Tensor logits = b.input(shape), some_below_0 = fill(b.graph(), shape, -0.7f);
      return precision_at_1(logits, add(b.targets(shape), some_below_0));
    };
  };
  return {{"10 classes", of({17, 10})},
          {"one class", of({3, 1})},
          {"batch 1", of({1, 4})},
          {"983 classes", of({16, 983})}};
}

}  // namespace

Tensor softmax_cross_entropy(Tensor logits, Tensor labels, float label_smoothing) {
  auto a = std::make_shared<CrossEntropyAttributes>();
  a->label_smoothing = label_smoothing;
  return logits.graph->append(kCrossEntropy, {logits.value, labels.value}, a);
}

Tensor sigmoid_cross_entropy(Tensor logits, Tensor targets) {
  return logits.graph->append(kSigmoid, {logits.value, targets.value});
}

Tensor mean_squared_error(Tensor x, Tensor targets) {
  return x.graph->append(kSquaredError, {x.value, targets.value});
}

Tensor accuracy(Tensor logits, Tensor labels, int64_t top_k) {
  auto a = std::make_shared<AccuracyAttributes>();
  a->top_k = top_k;
  return logits.graph->append(kAccuracy, {logits.value, labels.value}, a);
}

Tensor binary_accuracy(Tensor logits, Tensor labels) {
  return logits.graph->append(kBinaryAccuracy, {logits.value, labels.value});
}

Tensor precision_at_1(Tensor logits, Tensor targets) {
  return logits.graph->append(kPrecision, {logits.value, targets.value});
}

}  // namespace crossbow
