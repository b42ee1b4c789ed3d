#include "ops/dense.h"

#include <algorithm>
#include <dnnl.hpp>
#include <limits>
#include <optional>
#include <utility>

#include "core/error.h"
#include "device/hogwild_sgd.h"
#include "device/sgd.h"
#include "kernels/cpu/activation.h"
#include "kernels/cpu/onednn.h"
#include "kernels/cpu/prepare.h"
#include "kernels/cpu/sgd.h"
#include "kernels/cpu/team.h"
#include "kernels/measure.h"

namespace crossbow {
namespace {

using onednn::Desc;

/// x as the matrix that a dense layer reads: rows by everything else.
Layout as_rows(const Layout& plain) {
  const Shape& s = plain.shape;
  return Layout::plain({s[0], s.elements_from(1)}, plain.dtype);
}

Layout plain_of(const TensorType& type, DType dtype) {
  return Layout::plain(type.shape, dtype);
}

/// Whether our loops read these weights as they are: 16i64o blocks, those of all inputs in a row.
bool in_blocks(const Layout& weights) {
  return weights.dtype == DType::f32 &&
         weights.blocks == std::vector<Layout::Block>{{1, 16}, {0, 64}} &&
         weights.strides[1] == 16 * 64;
}
bool in_whole_blocks(const Layout& weights) {
  return in_blocks(weights) && weights.padded == weights.shape;
}

struct Range {
  float least, most;
};
/// That an activation's result is clamped to, if it is no more than that.
std::optional<Range> clamps(Activation activation) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  switch (activation) {
    case Activation::none:
      return Range{-kInfinity, kInfinity};
    case Activation::relu:
      return Range{0, kInfinity};
    case Activation::relu6:
      return Range{0, 6};
    default:
      return {};
  }
}

PreparedKernel loops_dense(const PrepareContext& c, PreparedKernel kernel, Range range) {
  kernel.implementation = loops_implementation();
  kernel.bind = [weights = kernel.inputs[1], rows = kernel.outputs[0].shape[0], range,
                 threads = c.threads, with_bias = c.node.has_input(2)](Operands o) -> Call {
    const DenseArgs args{.rows = rows,
                         .inputs = weights.shape[1],
                         .outputs = weights.shape[0],
                         .x = as<float>(o.inputs[0]),
                         .bias = with_bias ? as<float>(o.inputs[2]) : nullptr,
                         .y = as<float>(o.outputs[0]),
                         .least = range.least,
                         .most = range.most};
    const int64_t blocks = weights.padded[0] / 64;
    const int64_t slices = std::clamp<int64_t>(threads / blocks, 1, rows);
    return [=, w = as<float>(o.inputs[1]), stride = weights.strides[0]](const Step&) {
      parallel_for(threads, blocks * slices, [&](int64_t i) {
        const int64_t block = i / slices, slice = i % slices;
        loops().dense(args, w + block * stride, block * 64, args.rows * slice / slices,
                      args.rows * (slice + 1) / slices);
      });
    };
  };
  return kernel;
}

/// What the library fuses itself makes numbers of NaN: so a net that diverges would look sound.
PreparedKernel activated(const PrepareContext& c, Activation activation, PreparedKernel kernel) {
  if (activation == Activation::none) return kernel;
  return with_storage(kernel.outputs[0], [&](auto t) {
    using T = decltype(t);
    kernel.bind = [product = std::move(kernel.bind), n = kernel.outputs[0].elements(),
                   loop = activation_loops<T>(activation).forward,
                   threads = c.threads](Operands o) -> Call {
      return [=, run = product(o), y = as<T>(o.outputs[0])](const Step& step) {
        run(step);
        parallel_ranges(threads, n, [&](int64_t begin, int64_t end) {
          loop(y + begin, y + begin, end - begin);
        });
      };
    };
    return std::move(kernel);
  });
}

PreparedKernel prepare_dense(const PrepareContext& c) {
  const Layout x = plain_of(c.input_type(0), c.precision);
  const Layout y = plain_of(c.node.outputs[0], c.precision);
  const bool with_bias = c.node.has_input(2);
  const Layout bias = with_bias ? plain_of(c.input_type(2), DType::f32) : Layout{};
  const Desc bias_desc = with_bias ? onednn::desc_of(bias) : Desc();
  const auto desc = onednn::dense_forward(onednn::desc_of(as_rows(x)),
                                          onednn::desc_any(c.input_type(1).shape, c.precision),
                                          bias_desc, onednn::desc_of(y));

  PreparedKernel kernel{{x, onednn::layout_of(desc.weights_desc()), bias}, {y}};
  const Activation activation = c.node.attrs<DenseAttributes>().activation;
  const auto range = clamps(activation);
  if (range && in_blocks(kernel.inputs[1])) return loops_dense(c, std::move(kernel), *range);

  std::vector<onednn::Wire> wires{onednn::input(0, DNNL_ARG_SRC, desc.src_desc()),
                                  onednn::input(1, DNNL_ARG_WEIGHTS, desc.weights_desc()),
                                  onednn::output(0, DNNL_ARG_DST, desc.dst_desc())};
  if (with_bias) wires.push_back(onednn::input(2, DNNL_ARG_BIAS, bias_desc));
  return activated(
      c, activation,
      onednn::run_by<dnnl::inner_product_forward>(desc, std::move(wires), std::move(kernel)));
}

PreparedKernel library_grad_input(const PrepareContext& c, const Layout& dy, const Layout& dx) {
  const auto desc = onednn::dense_backward_data(
      onednn::desc_of(as_rows(dx)), onednn::desc_any(c.input_type(1).shape, c.precision),
      onednn::desc_of(dy));
  return onednn::run_by<dnnl::inner_product_backward_data>(
      desc,
      {onednn::input(0, DNNL_ARG_DIFF_DST, desc.diff_dst_desc()),
       onednn::input(1, DNNL_ARG_WEIGHTS, desc.weights_desc()),
       onednn::output(0, DNNL_ARG_DIFF_SRC, desc.diff_src_desc())},
      {{dy, onednn::layout_of(desc.weights_desc())}, {dx}});
}

PreparedKernel loops_grad_input(const PrepareContext& c, const Layout& dy, const Layout& weights,
                                const Layout& dx) {
  PreparedKernel kernel{{dy, weights}, {dx}};
  kernel.implementation = loops_implementation();
  const DenseBlocks blocks{dy.shape[0], weights.shape[0], weights.shape[1], weights.strides[0]};
  kernel.bind = [blocks, stride = weights.strides[1], threads = c.threads](Operands o) -> Call {
    return [=, dy = as<float>(o.inputs[0]), w = as<float>(o.inputs[1]),
            dx = as<float>(o.outputs[0])](const Step&) {
      parallel_for(threads, blocks.inputs / 16, [&](int64_t i) {
        loops().dense_grad_input(blocks, w + i * stride, dy, dx + i * 16);
      });
    };
  };
  return kernel;
}

PreparedKernel prepare_grad_input(const PrepareContext& c) {
  const Layout dy = plain_of(c.input_type(0), c.precision);
  const Layout dx = plain_of(c.node.outputs[0], c.precision);
  std::vector<PreparedKernel> candidates{library_grad_input(c, dy, dx)};
  const Layout weights = candidates[0].inputs[1];
  if (in_whole_blocks(weights)) candidates.push_back(loops_grad_input(c, dy, weights, dx));
  const std::string key = fmt::format("dense_grad_input {} dy{} w{} t{}", name_of(c.precision),
                                      dy.shape.str(), weights.shape.str(), c.threads);
  return choose(c, key, std::move(candidates));
}

/// The gradient of weights in whole blocks, by rows of blocks.
class BlockGradient {
 public:
  BlockGradient(const Layout& dy, const Layout& weights, int threads)
      : rows_(dy.shape[0]),
        inputs_(weights.shape[1]),
        outputs_(weights.shape[0]),
        stride_(weights.strides[0]),
        threads_(threads) {}

  /// Calls f(blocks, begin) with blocks of the weights and where their elements begin, and adds up
  /// the gradient of the bias if there is one.
  template <typename F>
  void run(const Operands& o, const F& f) const {
    const auto *const x = as<float>(o.inputs[0]), *const dy = as<float>(o.inputs[1]);
    const int64_t of_outputs = outputs_ / 64, of_inputs = inputs_ / 16;
    const int64_t slices = std::clamp<int64_t>(threads_ / of_outputs, 1, of_inputs);
    parallel_for(threads_, of_outputs * slices, [&](int64_t i) {
      const int64_t output = i / slices, slice = i % slices;
      const int64_t first = of_inputs * slice / slices, end = of_inputs * (slice + 1) / slices;
      f(DenseGradArgs{rows_, inputs_, outputs_, end - first, x + first * 16, dy + output * 64},
        output * stride_ + first * 16 * 64);
    });
    if (o.outputs.size() > 1) loops().column_sums(dy, rows_, outputs_, as<float>(o.outputs[1]));
  }

 private:
  int64_t rows_, inputs_, outputs_, stride_;
  int threads_;
};

std::function<Call(Operands)> bind_update(const BlockGradient& gradient,
                                          const Optimizer& optimizer) {
  const bool live = optimizer.rule == &kHogwildSgd;
  if (!live && optimizer.rule != &kSgd) return nullptr;
  return [gradient, live](Operands o) -> Call {
    const UpdateSpans spans = update_spans(o, 2);
    if (live) {
      return [=](const Step& step) {
        gradient.run(o, [args = sgd_args(step.update), arrays = hogwild_arrays(step.update, spans)](
                            const DenseGradArgs& blocks, int64_t begin) {
          loops().dense_hogwild_step(blocks, args, arrays, begin);
        });
      };
    }
    return [=](const Step& step) {
      gradient.run(o, [args = sgd_args(step.update), arrays = sgd_arrays(step.update, spans)](
                          const DenseGradArgs& blocks, int64_t begin) {
        loops().dense_sgd_step(blocks, args, arrays, begin);
      });
    };
  };
}

PreparedKernel loops_grad_weights(const PrepareContext& c, PreparedKernel kernel) {
  kernel.implementation = loops_implementation();
  const BlockGradient gradient(kernel.inputs[1], kernel.outputs[0], c.threads);
  kernel.bind = [gradient](Operands o) -> Call {
    return [=, dw = as<float>(o.outputs[0])](const Step&) {
      gradient.run(o, [dw](const DenseGradArgs& blocks, int64_t begin) {
        loops().dense_grad_weights(blocks, dw + begin);
      });
    };
  };
  kernel.update = [gradient](const Optimizer& optimizer) {
    return bind_update(gradient, optimizer);
  };
  return kernel;
}

PreparedKernel prepare_grad_weights(const PrepareContext& c) {
  const bool with_bias = c.node.attrs<DenseGradWeightsAttributes>().with_bias;
  const Layout x = plain_of(c.input_type(0), c.precision);
  const Layout dy = plain_of(c.input_type(1), c.precision);
  const Layout bias = with_bias ? plain_of(c.node.outputs[1], DType::f32) : Layout{};
  const Desc bias_desc = with_bias ? onednn::desc_of(bias) : Desc();
  const Desc weights = c.required[0] ? onednn::desc_of(*c.required[0])
                                     : onednn::desc_any(c.node.outputs[0].shape, DType::f32);
  const auto desc = onednn::dense_backward_weights(onednn::desc_of(as_rows(x)), weights, bias_desc,
                                                   onednn::desc_of(dy));

  PreparedKernel kernel{{x, dy}, {onednn::layout_of(desc.diff_weights_desc())}};
  if (with_bias) kernel.outputs.push_back(bias);
  const bool by_loops = c.precision == DType::f32 && dy.shape[0] <= kMostGradRows;
  if (by_loops && in_whole_blocks(kernel.outputs[0]))
    return loops_grad_weights(c, std::move(kernel));

  std::vector<onednn::Wire> wires{
      onednn::input(0, DNNL_ARG_SRC, desc.src_desc()),
      onednn::input(1, DNNL_ARG_DIFF_DST, desc.diff_dst_desc()),
      onednn::output(0, DNNL_ARG_DIFF_WEIGHTS, desc.diff_weights_desc())};
  if (with_bias) wires.push_back(onednn::output(1, DNNL_ARG_DIFF_BIAS, bias_desc));
  return onednn::run_by<dnnl::inner_product_backward_weights>(desc, std::move(wires),
                                                              std::move(kernel));
}

const RegisterKernel kDense{"cpu", "dense", prepare_dense};
const RegisterKernel kGradInput{"cpu", "dense_grad_input", prepare_grad_input};
const RegisterKernel kGradWeights{"cpu", "dense_grad_weights", prepare_grad_weights};

}  // namespace
}  // namespace crossbow
