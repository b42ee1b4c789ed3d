// Losses work on f32 at every precision, and on one thread: a batch's logits are few.
#include "ops/loss.h"

#include <algorithm>

#include "kernels/cpu/prepare.h"

namespace crossbow {
namespace {

Layout labels_layout(const Shape& logits) {
  return Layout::plain({logits[0]}, DType::i32);
}

PreparedKernel prepared(std::vector<Layout> inputs, std::vector<Layout> outputs,
                        std::function<Call(Operands)> bind) {
  return {std::move(inputs), std::move(outputs), 0, loops_implementation(), std::move(bind)};
}

PreparedKernel prepare_softmax(const PrepareContext& context) {
  const Layout logits = plain_f32(context.input_type(0).shape);
  const int64_t rows = logits.shape[0], classes = logits.shape[1];
  const double smoothing = context.node.attrs<CrossEntropyAttributes>().label_smoothing;
  return prepared({logits, labels_layout(logits.shape)}, {plain_f32({}), logits}, [=](Operands o) {
    return [=, x = as<float>(o.inputs[0]), labels = as<int32_t>(o.inputs[1]),
            loss = as<float>(o.outputs[0]), probabilities = as<float>(o.outputs[1])](const Step&) {
      double total = 0;
      for (int64_t r = 0; r < rows; ++r) {
        const float* row = x + r * classes;
        total += loops().softmax(row, probabilities + r * classes, classes);
        total -= (1 - smoothing) * row[labels[r]];
        if (smoothing > 0) total -= smoothing * loops().sum(row, classes) / classes;
      }
      *loss = static_cast<float>(total / static_cast<double>(rows));
    };
  });
}

PreparedKernel prepare_softmax_grad(const PrepareContext& context) {
  const Layout dx = plain_f32(context.node.outputs[0].shape);
  const int64_t rows = dx.shape[0], classes = dx.shape[1];
  const float smoothing = context.node.attrs<CrossEntropyAttributes>().label_smoothing;
  return prepared({plain_f32({}), dx, labels_layout(dx.shape)}, {dx}, [=](Operands o) {
    return [=, g = as<float>(o.inputs[0]), p = as<float>(o.inputs[1]),
            labels = as<int32_t>(o.inputs[2]), dx = as<float>(o.outputs[0])](const Step&) {
      const float scale = *g / static_cast<float>(rows);
      for (int64_t r = 0; r < rows; ++r) {
        float* row = dx + r * classes;
        loops().scaled_difference(p + r * classes, smoothing / static_cast<float>(classes), scale,
                                  row, classes);
        row[labels[r]] -= scale * (1 - smoothing);
      }
    };
  });
}

/// What x is compared with: as it is fed, or made of labels in scratch memory.
class Targets {
 public:
  Targets(const Layout& x, DType given)
      : x_(x), labels_(given == DType::i32), columns_(x.shape.elements_from(1)) {}

  Layout layout() const { return labels_ ? labels_layout(x_.shape) : x_; }
  size_t scratch_bytes() const { return labels_ ? x_.elements() * sizeof(float) : 0; }
  const float* read(const void* given, void* scratch) const {
    if (!labels_) return static_cast<const float*>(given);
    const auto* labels = static_cast<const int32_t*>(given);
    auto* targets = static_cast<float*>(scratch);
    std::fill_n(targets, x_.elements(), 0.0f);
    const int64_t first = class_of_column(0, columns_);
    for (int64_t r = 0; r < x_.shape[0]; ++r) {
      const int64_t column = labels[r] - first;
      if (column >= 0 && column < columns_) targets[r * columns_ + column] = 1;
    }
    return targets;
  }

 private:
  Layout x_;
  bool labels_;
  int64_t columns_;
};

PreparedKernel with_scratch(PreparedKernel kernel, size_t bytes) {
  kernel.scratch_bytes = bytes;
  return kernel;
}

/// A loss that is a mean over all elements of a function of x and its target.
template <double (*Loops::*sum)(const float*, const float*, int64_t)>
PreparedKernel prepare_mean(const PrepareContext& context) {
  const Layout x = plain_f32(context.input_type(0).shape);
  const Targets targets(x, context.input_type(1).dtype);
  const auto bind = [=, n = x.elements()](const Operands& o) {
    return [=, x = as<float>(o.inputs[0]), loss = as<float>(o.outputs[0]), given = o.inputs[1],
            scratch = o.scratch](const Step&) {
      const float* target = targets.read(given, scratch);
      *loss = static_cast<float>((loops().*sum)(x, target, n) / static_cast<double>(n));
    };
  };
  return with_scratch(prepared({x, targets.layout()}, {plain_f32({})}, bind),
                      targets.scratch_bytes());
}

/// `factor` is that of the loop's result in the derivative of one element's loss.
template <void (*Loops::*grad)(const float*, const float*, float, float*, int64_t), int factor>
PreparedKernel prepare_mean_grad(const PrepareContext& context) {
  const Layout dx = plain_f32(context.node.outputs[0].shape);
  const Targets targets(dx, context.input_type(2).dtype);
  const auto bind = [=, n = dx.elements()](const Operands& o) {
    return [=, g = as<float>(o.inputs[0]), x = as<float>(o.inputs[1]), given = o.inputs[2],
            dx = as<float>(o.outputs[0]), scratch = o.scratch](const Step&) {
      const float* target = targets.read(given, scratch);
      (loops().*grad)(x, target, *g * factor / static_cast<float>(n), dx, n);
    };
  };
  return with_scratch(prepared({plain_f32({}), dx, targets.layout()}, {dx}, bind),
                      targets.scratch_bytes());
}

/// Whether fewer than `top_k` logits count as larger than the label's.
bool is_among_top(const float* row, int64_t classes, int64_t label, int64_t top_k) {
  int64_t larger = 0;
  for (int64_t c = 0; c < classes; ++c) {
    larger += !(row[c] < row[label]) && (row[c] != row[label] || c < label);  // a NaN loses
  }
  return larger < top_k;
}

PreparedKernel prepare_accuracy(const PrepareContext& context) {
  const Layout logits = plain_f32(context.input_type(0).shape);
  const int64_t rows = logits.shape[0], classes = logits.shape[1];
  const int64_t top_k = context.node.attrs<AccuracyAttributes>().top_k;
  return prepared({logits, labels_layout(logits.shape)}, {plain_f32({})}, [=](Operands o) {
    return [=, x = as<float>(o.inputs[0]), labels = as<int32_t>(o.inputs[1]),
            accuracy = as<float>(o.outputs[0])](const Step&) {
      int64_t correct = 0;
      for (int64_t r = 0; r < rows; ++r) {
        correct += is_among_top(x + r * classes, classes, labels[r], top_k);
      }
      *accuracy = static_cast<float>(correct) / static_cast<float>(rows);
    };
  });
}

PreparedKernel prepare_binary_accuracy(const PrepareContext& context) {
  const Layout logits = plain_f32(context.input_type(0).shape);
  return prepared({logits, labels_layout(logits.shape)}, {plain_f32({})},
                  [rows = logits.shape[0]](Operands o) {
                    return [=, x = as<float>(o.inputs[0]), labels = as<int32_t>(o.inputs[1]),
                            accuracy = as<float>(o.outputs[0])](const Step&) {
                      int64_t correct = 0;
                      for (int64_t r = 0; r < rows; ++r) {
                        correct += labels[r] == 1 ? x[r] > 0 : x[r] <= 0;  // a NaN loses
                      }
                      *accuracy = static_cast<float>(correct) / static_cast<float>(rows);
                    };
                  });
}

PreparedKernel prepare_precision(const PrepareContext& context) {
  const Layout logits = plain_f32(context.input_type(0).shape);
  const int64_t rows = logits.shape[0], classes = logits.shape[1];
  return prepared({logits, logits}, {plain_f32({})}, [=](Operands o) {
    return [=, logits = as<float>(o.inputs[0]), targets = as<float>(o.inputs[1]),
            precision = as<float>(o.outputs[0])](const Step&) {
      int64_t correct = 0;
      for (int64_t r = 0; r < rows; ++r) {
        const float* const x = logits + r * classes;
        int64_t best = 0;
        bool numbers = true;
        for (int64_t c = 0; c < classes; ++c) {
          if (x[c] > x[best]) best = c;
          numbers &= x[c] == x[c];
        }
        correct += numbers && targets[r * classes + best] > 0;
      }
      *precision = static_cast<float>(correct) / static_cast<float>(rows);
    };
  });
}

const RegisterKernel kSoftmax{"cpu", "softmax_cross_entropy", prepare_softmax};
const RegisterKernel kSoftmaxGrad{"cpu", "softmax_cross_entropy_grad", prepare_softmax_grad};
const RegisterKernel kSigmoid{"cpu", "sigmoid_cross_entropy",
                              prepare_mean<&Loops::sigmoid_cross_entropy>};
const RegisterKernel kSigmoidGrad{"cpu", "sigmoid_cross_entropy_grad",
                                  prepare_mean_grad<&Loops::sigmoid_cross_entropy_grad, 1>};
const RegisterKernel kSquared{"cpu", "mean_squared_error", prepare_mean<&Loops::squared_distance>};
const RegisterKernel kSquaredGrad{"cpu", "mean_squared_error_grad",
                                  prepare_mean_grad<&Loops::squared_distance_grad, 2>};
const RegisterKernel kAccuracy{"cpu", "accuracy", prepare_accuracy};
const RegisterKernel kBinaryAccuracy{"cpu", "binary_accuracy", prepare_binary_accuracy};
const RegisterKernel kPrecision{"cpu", "precision_at_1", prepare_precision};

}  // namespace
}  // namespace crossbow
