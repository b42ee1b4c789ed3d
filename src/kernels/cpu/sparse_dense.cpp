// Weights lie input-major: those of a feature, which a row touches, are neighbours. A step reads
// and changes them as others may at the same time (simd/shared.h), so Hogwild needs no second kind
// of kernel.
#include "ops/sparse_dense.h"

#include <algorithm>

#include "core/error.h"
#include "device/hogwild_sgd.h"
#include "device/sgd.h"
#include "kernels/cpu/prepare.h"
#include "kernels/cpu/team.h"
#include "kernels/input_major.h"

namespace crossbow {
namespace {

SparseNumbers numbers_of(const Operands& o) {
  return {as<float>(o.inputs[0]), as<int32_t>(o.inputs[1]), as<int32_t>(o.inputs[2])};
}

std::vector<Layout> rows_layouts(const PrepareContext& c) {
  std::vector<Layout> layouts;
  for (size_t i = 0; i < 3; ++i) {
    const TensorType type = c.input_type(i);
    layouts.push_back(Layout::plain(type.shape, type.dtype));
  }
  return layouts;
}

/// Multiplications of a batch, about.
int64_t work_of(const SparseDenseAttributes& a, const Shape& y) {
  return static_cast<int64_t>(a.mean_numbers * static_cast<double>(y.elements()));
}

PreparedKernel prepare_forward(const PrepareContext& c) {
  PreparedKernel kernel{rows_layouts(c), {plain_f32(c.node.outputs[0].shape)}};
  kernel.inputs.push_back(input_major(c.input_type(3).shape));
  kernel.inputs.push_back(c.node.has_input(4) ? plain_f32(c.input_type(4).shape) : Layout{});
  kernel.implementation = loops_implementation();
  kernel.reads_live = true;
  const Shape& y = c.node.outputs[0].shape;
  const int parts = useful_threads(c.threads, work_of(c.node.attrs<SparseDenseAttributes>(), y));
  kernel.bind = [parts, rows = y[0], outputs = y[1]](Operands o) -> Call {
    const SparseDenseArgs args{numbers_of(o), outputs, as<float>(o.inputs[3]),
                               as<float>(o.inputs[4]), as<float>(o.outputs[0])};
    return [=](const Step&) {
      parallel_for(parts, parts, [&](int64_t p) {
        loops().sparse_dense(args, rows * p / parts, rows * (p + 1) / parts);
      });
    };
  };
  return kernel;
}

/// How the gradient's kernel adds what each row contributes, to the gradient or to the weights.
class Adder {
 public:
  explicit Adder(const PrepareContext& c) : rows_(c.input_type(3).shape[0]) {
    const Shape& dy = c.input_type(3).shape;
    outputs_ = dy[1];
    const int useful =
        useful_threads(c.threads, work_of(c.node.attrs<SparseDenseGradAttributes>(), dy));
    parts_ = static_cast<int>(std::clamp<int64_t>(outputs_ / kLeast, 1, useful));
  }

  /// to[c, :] += factor · value · dy[row, :], each thread for some of the outputs.
  void operator()(const SparseNumbers& numbers, const float* dy, float factor, float* to) const {
    const SparseAddArgs args{numbers, rows_, outputs_, dy, factor, to};
    const auto cut = [&](int64_t p) { return outputs_ * p / parts_; };
    parallel_for(parts_, parts_, [&](int64_t p) { loops().sparse_add(args, cut(p), cut(p + 1)); });
  }
  void add_up(const float* dy, float* db) const {
    if (db) loops().column_sums(dy, rows_, outputs_, db);
  }

 private:
  static constexpr int64_t kLeast = 64;  // outputs that are worth a thread
  int64_t rows_, outputs_ = 0;
  int parts_ = 1;
};

float* bias_gradient(const Operands& o) {
  return o.outputs.size() > 1 ? as<float>(o.outputs[1]) : nullptr;
}

/// Plain SGD, also of live weights: elements whose gradient is 0 stay as they are.
std::function<Call(Operands)> bind_update(const Adder& add, const Optimizer& optimizer) {
  const bool live = optimizer.rule == &kHogwildSgd;
  const bool plain = live || (optimizer.rule == &kSgd && optimizer.slots.empty());
  const bool numbers = std::ranges::any_of(optimizer.coefficients, [](double c) { return c != 0; });
  if (!plain || numbers || optimizer.weight_decay.factor != 0) return nullptr;
  return [add, live](Operands o) -> Call {
    const UpdateSpans spans = update_spans(o, 4);
    auto* const weights = as<float>(live ? spans.slots[0] : spans.next);
    return [=, numbers = numbers_of(o), dy = as<float>(o.inputs[3]),
            db = bias_gradient(o)](const Step& step) {
      add(numbers, dy, static_cast<float>(-step.update.lr), weights);
      add.add_up(dy, db);
    };
  };
}

PreparedKernel prepare_grad_weights(const PrepareContext& c) {
  PreparedKernel kernel{rows_layouts(c), {input_major(c.node.outputs[0].shape)}};
  kernel.inputs.push_back(plain_f32(c.input_type(3).shape));
  if (c.node.outputs.size() > 1) kernel.outputs.push_back(plain_f32(c.node.outputs[1].shape));
  kernel.implementation = loops_implementation();
  const Adder add(c);
  kernel.bind = [add, n = kernel.outputs[0].elements(), threads = c.threads](Operands o) -> Call {
    return [=, numbers = numbers_of(o), dy = as<float>(o.inputs[3]), dw = as<float>(o.outputs[0]),
            db = bias_gradient(o)](const Step&) {
      parallel_ranges(threads, n,
                      [&](int64_t begin, int64_t end) { std::fill(dw + begin, dw + end, 0.0f); });
      add(numbers, dy, 1, dw);
      add.add_up(dy, db);
    };
  };
  kernel.update = [add](const Optimizer& optimizer) { return bind_update(add, optimizer); };
  kernel.updates_few = true;
  return kernel;
}

const RegisterKernel kForward{"cpu", "sparse_dense", prepare_forward};
const RegisterKernel kGradWeights{"cpu", "sparse_dense_grad_weights", prepare_grad_weights};

}  // namespace
}  // namespace crossbow
