#include "ops/loss.h"

#include <algorithm>
#include <cmath>

#include "kernels/ref/ref.h"

namespace crossbow::ref {
namespace {

/// What a class should get: (1 − s)·onehot + s / classes.
template <typename T>
T target(int64_t c, int32_t label, T smoothing, int64_t classes) {
  return (c == label ? 1 - smoothing : 0) + smoothing / static_cast<T>(classes);
}

template <typename T>
void softmax_cross_entropy(const Run& run) {
  const T smoothing = run.attrs<CrossEntropyAttributes>().label_smoothing;
  const int32_t* labels = run.in<int32_t>(1);
  const int64_t rows = run.in_shape(0)[0], classes = run.in_shape(0)[1];
  T loss = 0;
  for (int64_t n = 0; n < rows; ++n) {
    const T* logits = run.in<T>(0) + n * classes;
    T* probabilities = run.out<T>(1) + n * classes;
    const T largest = *std::max_element(logits, logits + classes);
    T sum = 0;
    for (int64_t c = 0; c < classes; ++c) sum += std::exp(logits[c] - largest);
    for (int64_t c = 0; c < classes; ++c) {
      const T log_probability = logits[c] - largest - std::log(sum);
      loss -= target(c, labels[n], smoothing, classes) * log_probability;
      probabilities[c] = std::exp(log_probability);
    }
  }
  *run.out<T>(0) = loss / static_cast<T>(rows);
}

template <typename T>
void softmax_cross_entropy_grad(const Run& run) {
  const T smoothing = run.attrs<CrossEntropyAttributes>().label_smoothing;
  const T g = *run.in<T>(0);
  const T* probabilities = run.in<T>(1);
  const int32_t* labels = run.in<int32_t>(2);
  T* dx = run.out<T>();
  const int64_t rows = run.out_shape()[0], classes = run.out_shape()[1];
  for (int64_t n = 0, i = 0; n < rows; ++n) {
    for (int64_t c = 0; c < classes; ++c, ++i) {
      dx[i] =
          g * (probabilities[i] - target(c, labels[n], smoothing, classes)) / static_cast<T>(rows);
    }
  }
}

/// An input with the targets of x, or with labels that say them; by position in x.
template <typename T>
class Targets {
 public:
  Targets(const Run& run, size_t input, const Shape& x) : columns_(x.elements_from(1)) {
    if (run.inputs[input].dtype == DType::i32) {
      labels_ = run.in<int32_t>(input);
    } else {
      values_ = run.in<T>(input);
    }
  }
  T operator[](int64_t i) const {
    if (values_) return values_[i];
    return class_of_column(i % columns_, columns_) == labels_[i / columns_] ? 1 : 0;
  }

 private:
  const T* values_ = nullptr;
  const int32_t* labels_ = nullptr;
  int64_t columns_;
};

template <typename T>
void sigmoid_cross_entropy(const Run& run) {
  const T* x = run.in<T>(0);
  const Targets<T> targets(run, 1, run.in_shape(0));
  const int64_t count = run.in_shape(0).elements();
  T loss = 0;
  for (int64_t i = 0; i < count; ++i) {
    loss += std::max(x[i], T{0}) - x[i] * targets[i] + std::log1p(std::exp(-std::abs(x[i])));
  }
  *run.out<T>() = loss / static_cast<T>(count);
}

template <typename T>
void sigmoid_cross_entropy_grad(const Run& run) {
  const T g = *run.in<T>(0);
  const T* x = run.in<T>(1);
  const Targets<T> targets(run, 2, run.in_shape(1));
  T* dx = run.out<T>();
  const int64_t count = run.out_shape().elements();
  for (int64_t i = 0; i < count; ++i) {
    dx[i] = g * (activate(Activation::sigmoid, x[i]) - targets[i]) / static_cast<T>(count);
  }
}

template <typename T>
void mean_squared_error(const Run& run) {
  const T* x = run.in<T>(0);
  const Targets<T> targets(run, 1, run.in_shape(0));
  const int64_t count = run.in_shape(0).elements();
  T loss = 0;
  for (int64_t i = 0; i < count; ++i) loss += (x[i] - targets[i]) * (x[i] - targets[i]);
  *run.out<T>() = loss / static_cast<T>(count);
}

template <typename T>
void mean_squared_error_grad(const Run& run) {
  const T g = *run.in<T>(0);
  const T* x = run.in<T>(1);
  const Targets<T> targets(run, 2, run.in_shape(1));
  T* dx = run.out<T>();
  const int64_t count = run.out_shape().elements();
  for (int64_t i = 0; i < count; ++i) dx[i] = g * 2 * (x[i] - targets[i]) / static_cast<T>(count);
}

template <typename T>
void accuracy(const Run& run) {
  const int32_t* labels = run.in<int32_t>(1);
  const int64_t rows = run.in_shape(0)[0], classes = run.in_shape(0)[1];
  int64_t correct = 0;
  for (int64_t n = 0; n < rows; ++n) {
    const T* logits = run.in<T>(0) + n * classes;
    const int64_t label = labels[n];
    int64_t larger = 0;
    for (int64_t c = 0; c < classes; ++c) {
      larger +=
          !(logits[c] < logits[label]) && (logits[c] != logits[label] || c < label);  // a NaN loses
    }
    correct += larger < run.attrs<AccuracyAttributes>().top_k;
  }
  *run.out<T>() = static_cast<T>(correct) / static_cast<T>(rows);
}

template <typename T>
void binary_accuracy(const Run& run) {
  const T* logits = run.in<T>(0);
  const int32_t* labels = run.in<int32_t>(1);
  const int64_t rows = run.in_shape(0)[0];
  int64_t correct = 0;
  for (int64_t n = 0; n < rows; ++n) {
    correct += labels[n] == 1 ? logits[n] > 0 : logits[n] <= 0;  // a NaN loses
  }
  *run.out<T>() = static_cast<T>(correct) / static_cast<T>(rows);
}

template <typename T>
void precision_at_1(const Run& run) {
  const int64_t rows = run.in_shape(0)[0], classes = run.in_shape(0)[1];
  int64_t correct = 0;
  for (int64_t n = 0; n < rows; ++n) {
    const T *logits = run.in<T>(0) + n * classes, *targets = run.in<T>(1) + n * classes;
    const bool numbers = std::none_of(logits, logits + classes, [](T x) { return std::isnan(x); });
    correct += numbers && targets[std::max_element(logits, logits + classes) - logits] > 0;
  }
  *run.out<T>() = static_cast<T>(correct) / static_cast<T>(rows);
}

const RegisterKernel kSoftmax{"ref", "softmax_cross_entropy",
                              prepare<softmax_cross_entropy<float>, softmax_cross_entropy<double>>};
const RegisterKernel kSoftmaxGrad{
    "ref", "softmax_cross_entropy_grad",
    prepare<softmax_cross_entropy_grad<float>, softmax_cross_entropy_grad<double>>};
const RegisterKernel kSigmoid{"ref", "sigmoid_cross_entropy",
                              prepare<sigmoid_cross_entropy<float>, sigmoid_cross_entropy<double>>};
const RegisterKernel kSigmoidGrad{
    "ref", "sigmoid_cross_entropy_grad",
    prepare<sigmoid_cross_entropy_grad<float>, sigmoid_cross_entropy_grad<double>>};
const RegisterKernel kSquared{"ref", "mean_squared_error",
                              prepare<mean_squared_error<float>, mean_squared_error<double>>};
const RegisterKernel kSquaredGrad{
    "ref", "mean_squared_error_grad",
    prepare<mean_squared_error_grad<float>, mean_squared_error_grad<double>>};
const RegisterKernel kAccuracy{"ref", "accuracy", prepare<accuracy<float>, accuracy<double>>};
const RegisterKernel kBinaryAccuracy{"ref", "binary_accuracy",
                                     prepare<binary_accuracy<float>, binary_accuracy<double>>};
const RegisterKernel kPrecision{"ref", "precision_at_1",
                                prepare<precision_at_1<float>, precision_at_1<double>>};

}  // namespace
}  // namespace crossbow::ref
