#include "ops/loss.h"

#include <cmath>

#include "kernels/cuda/prepare.h"
#include "kernels/cuda/rows.h"

namespace crossbow::CROSSBOW_GRID {
namespace {

/// What a class should get: (1 − s)·onehot + s / classes.
CROSSBOW_GPU float target(int64_t c, int32_t label, float smoothing, int64_t classes) {
  return (c == label ? 1 - smoothing : 0) + smoothing / static_cast<float>(classes);
}

/// By one block, which adds up the rows' losses.
template <typename T>
struct CrossEntropy {
  Rows shape;
  float smoothing;
  const T* logits;
  const int32_t* labels;
  float *loss, *probabilities;

  CROSSBOW_GPU void operator()(const Thread& t) const {
    float sum = 0;
    shape.for_each(t, [&](int64_t row, bool exists) {
      const int64_t at = row * shape.columns;
      const RowOf<T> x{logits + at, shape.columns, exists};
      const Exponentials of = exponentials(t, x);
      x.for_each(t, [&](int64_t c) {
        const float log_probability = x.data[c] - of.largest - logf(of.sum);
        sum -= target(c, labels[row], smoothing, shape.columns) * log_probability;
        probabilities[at + c] = expf(log_probability);
      });
    });
    sum = sum_of_block(t, sum);
    if (t.rank() == 0) *loss = sum / static_cast<float>(shape.count);
  }
};

template <typename T>
struct CrossEntropyGrad {
  Rows shape;
  float smoothing;
  const float *g, *probabilities;
  const int32_t* labels;
  T* dx;

  CROSSBOW_GPU void operator()(int64_t i) const {
    const int32_t label = labels[i / shape.columns];
    dx[i] = *g * (probabilities[i] - target(i % shape.columns, label, smoothing, shape.columns)) /
            static_cast<float>(shape.count);
  }
};

/// Of x, by position: an input of x's shape, or labels that say them.
struct Targets {
  const float* values;  // null: labels
  const int32_t* labels;
  int64_t columns;

  CROSSBOW_GPU float operator[](int64_t i) const {
    if (values) return values[i];
    return class_of_column(i % columns, columns) == labels[i / columns] ? 1 : 0;
  }
};

template <typename T>
struct SigmoidLoss {
  const T* x;
  Targets targets;

  CROSSBOW_GPU float operator()(int64_t i) const {
    const float v = x[i];
    return fmaxf(v, 0) - v * targets[i] + log1pf(expf(-fabsf(v)));
  }
};

template <typename T>
struct SquaredLoss {
  const T* x;
  Targets targets;

  CROSSBOW_GPU float operator()(int64_t i) const {
    return (x[i] - targets[i]) * (x[i] - targets[i]);
  }
};

template <typename T>
struct SigmoidGrad {
  float count;
  const float* g;
  const T* x;
  Targets targets;
  T* dx;

  CROSSBOW_GPU void operator()(int64_t i) const {
    dx[i] = *g * (1 / (1 + expf(-x[i])) - targets[i]) / count;
  }
};

template <typename T>
struct SquaredGrad {
  float count;
  const float* g;
  const T* x;
  Targets targets;
  T* dx;

  CROSSBOW_GPU void operator()(int64_t i) const { dx[i] = *g * 2 * (x[i] - targets[i]) / count; }
};

/// By one block.
template <typename T>
struct Accuracy {
  Rows shape;
  int64_t top_k;
  const T* logits;
  const int32_t* labels;
  float* share;

  CROSSBOW_GPU void operator()(const Thread& t) const {
    float correct = 0;
    shape.for_each(t, [&](int64_t row, bool exists) {
      const RowOf<T> x{logits + row * shape.columns, shape.columns, exists};
      const int64_t label = labels[row];
      float larger = 0;
      x.for_each(t, [&](int64_t c) {
        const float mine = x.data[label], other = x.data[c];
        larger += !(other < mine) && (other != mine || c < label);  // a NaN loses
      });
      larger = sum_of_warp(t, larger);
      if (exists && t.rank() % kWarp == 0) correct += larger < static_cast<float>(top_k);
    });
    correct = sum_of_block(t, correct);
    if (t.rank() == 0) *share = correct / static_cast<float>(shape.count);
  }
};

template <typename T>
struct BinaryCorrect {
  const T* logits;
  const int32_t* labels;

  CROSSBOW_GPU float operator()(int64_t row) const {
    const float x = logits[row];
    return labels[row] == 1 ? x > 0 : x <= 0;  // a NaN loses
  }
};

/// By one block.
template <typename T>
struct PrecisionAt1 {
  Rows shape;
  const T* logits;
  const float* targets;
  float* share;

  CROSSBOW_GPU void operator()(const Thread& t) const {
    float correct = 0;
    shape.for_each(t, [&](int64_t row, bool exists) {
      const RowOf<T> x{logits + row * shape.columns, shape.columns, exists};
      float largest = -INFINITY, nans = 0;
      x.for_each(t, [&](int64_t c) {
        const float value = x.data[c];
        largest = fmaxf(largest, value);
        nans += value != value;
      });
      largest = largest_of_warp(t, largest);
      nans = sum_of_warp(t, nans);
      float first = -INFINITY;  // of the largest: its column, negative
      x.for_each(t, [&](int64_t c) {
        if (static_cast<float>(x.data[c]) == largest) first = fmaxf(first, -static_cast<float>(c));
      });
      first = largest_of_warp(t, first);
      if (exists && t.rank() % kWarp == 0 && nans == 0) {
        const auto column = static_cast<int64_t>(-first);
        correct += targets[row * shape.columns + column] > 0;
      }
    });
    correct = sum_of_block(t, correct);
    if (t.rank() == 0) *share = correct / static_cast<float>(shape.count);
  }
};

/// What a loss takes and keeps beside the logits is f32 at every precision.
Layout input_in_f32(const PrepareContext& context, size_t i) {
  return input_layout(context, i).with_dtype(DType::f32);
}

constexpr Grid kOneBlock{1, kThreads, shared_for_sums(kThreads)};

PreparedKernel prepare_cross_entropy(const PrepareContext& context) {
  const Layout x = input_layout(context, 0);
  const Rows shape{x.shape[0], x.shape[1]};
  const float smoothing = context.node.attrs<CrossEntropyAttributes>().label_smoothing;
  return on_grid({x, plain_i32({shape.count})}, {plain_f32({}), x.with_dtype(DType::f32)}, x.dtype,
                 kOneBlock, [=](auto t, const Operands& o) {
                   using T = decltype(t);
                   return CrossEntropy<T>{shape,
                                          smoothing,
                                          as<T>(o.inputs[0]),
                                          as<int32_t>(o.inputs[1]),
                                          as<float>(o.outputs[0]),
                                          as<float>(o.outputs[1])};
                 });
}

PreparedKernel prepare_cross_entropy_grad(const PrepareContext& context) {
  const Layout p = input_in_f32(context, 1), x = p.with_dtype(context.precision);
  const Rows shape{x.shape[0], x.shape[1]};
  const float smoothing = context.node.attrs<CrossEntropyAttributes>().label_smoothing;
  return elementwise({plain_f32({}), p, plain_i32({shape.count})}, {x}, x,
                     [=](auto t, const Operands& o) {
                       using T = decltype(t);
                       return CrossEntropyGrad<T>{shape,
                                                  smoothing,
                                                  as<float>(o.inputs[0]),
                                                  as<float>(o.inputs[1]),
                                                  as<int32_t>(o.inputs[2]),
                                                  as<T>(o.outputs[0])};
                     });
}

/// Of the targets that are input i, of x.
Layout targets_layout(const PrepareContext& context, size_t i) {
  const TensorType type = context.input_type(i);
  return type.dtype == DType::i32 ? plain_i32(type.shape) : input_in_f32(context, i);
}

Targets targets_of(const Layout& layout, const Layout& x, void* data) {
  const bool labels = layout.dtype == DType::i32;
  return {labels ? nullptr : as<float>(data), labels ? as<int32_t>(data) : nullptr,
          x.shape.elements_from(1)};
}

template <template <typename> typename Loss>
PreparedKernel prepare_mean(const PrepareContext& context) {
  const Layout x = input_layout(context, 0), targets = targets_layout(context, 1);
  return mean_of({x, targets}, x.dtype, x.elements(), [=](auto t, const Operands& o) {
    using T = decltype(t);
    return Loss<T>{as<T>(o.inputs[0]), targets_of(targets, x, o.inputs[1])};
  });
}

template <template <typename> typename Gradient>
PreparedKernel prepare_mean_grad(const PrepareContext& context) {
  const Layout x = input_layout(context, 1), targets = targets_layout(context, 2);
  return elementwise({plain_f32({}), x, targets}, {x}, x, [=](auto t, const Operands& o) {
    using T = decltype(t);
    return Gradient<T>{static_cast<float>(x.elements()), as<float>(o.inputs[0]), as<T>(o.inputs[1]),
                       targets_of(targets, x, o.inputs[2]), as<T>(o.outputs[0])};
  });
}

PreparedKernel prepare_accuracy(const PrepareContext& context) {
  const Layout x = input_layout(context, 0);
  const Rows shape{x.shape[0], x.shape[1]};
  const int64_t top_k = context.node.attrs<AccuracyAttributes>().top_k;
  return on_grid({x, plain_i32({shape.count})}, {plain_f32({})}, x.dtype, kOneBlock,
                 [=](auto t, const Operands& o) {
                   using T = decltype(t);
                   return Accuracy<T>{shape, top_k, as<T>(o.inputs[0]), as<int32_t>(o.inputs[1]),
                                      as<float>(o.outputs[0])};
                 });
}

PreparedKernel prepare_binary_accuracy(const PrepareContext& context) {
  const Layout x = input_layout(context, 0);
  const int64_t rows = x.shape[0];
  return mean_of({x, plain_i32({rows})}, x.dtype, rows, [](auto t, const Operands& o) {
    using T = decltype(t);
    return BinaryCorrect<T>{as<T>(o.inputs[0]), as<int32_t>(o.inputs[1])};
  });
}

PreparedKernel prepare_precision(const PrepareContext& context) {
  const Layout x = input_layout(context, 0);
  return on_grid({x, input_in_f32(context, 1)}, {plain_f32({})}, x.dtype, kOneBlock,
                 [=](auto t, const Operands& o) {
                   using T = decltype(t);
                   return PrecisionAt1<T>{{x.shape[0], x.shape[1]},
                                          as<T>(o.inputs[0]),
                                          as<float>(o.inputs[1]),
                                          as<float>(o.outputs[0])};
                 });
}

const RegisterKernel kSoftmax{kDevice, "softmax_cross_entropy", prepare_cross_entropy};
const RegisterKernel kSoftmaxGrad{kDevice, "softmax_cross_entropy_grad",
                                  prepare_cross_entropy_grad};
const RegisterKernel kSigmoid{kDevice, "sigmoid_cross_entropy", prepare_mean<SigmoidLoss>};
const RegisterKernel kSigmoidGrad{kDevice, "sigmoid_cross_entropy_grad",
                                  prepare_mean_grad<SigmoidGrad>};
const RegisterKernel kSquared{kDevice, "mean_squared_error", prepare_mean<SquaredLoss>};
const RegisterKernel kSquaredGrad{kDevice, "mean_squared_error_grad",
                                  prepare_mean_grad<SquaredGrad>};
const RegisterKernel kAccuracy{kDevice, "accuracy", prepare_accuracy};
const RegisterKernel kBinaryAccuracy{kDevice, "binary_accuracy", prepare_binary_accuracy};
const RegisterKernel kPrecision{kDevice, "precision_at_1", prepare_precision};

}  // namespace
}  // namespace crossbow::CROSSBOW_GRID
