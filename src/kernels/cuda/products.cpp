// Convolutions and dense layers on a GPU: by cuDNN, dense layers by cuBLASLt as well, and by
// kernels of ours those of few rows, and gradients of a convolution's weights.
#include <fmt/format.h>

#include <map>
#include <mutex>

#include "core/error.h"
#include "device/cuda/cublaslt.h"
#include "device/cuda/gpu.h"
#include "kernels/cuda/bias.h"
#include "kernels/cuda/convolution_plans.h"
#include "kernels/cuda/few_rows.h"
#include "kernels/cuda/grad_weights.h"
#include "kernels/measure.h"
#include "ops/dense.h"

namespace crossbow::cuda {
namespace {

using Pass = Convolution::Pass;

constexpr size_t kAlignment = 256;  // of a library's workspace
constexpr const char *kOurs = "loops", *kFew = "few rows";

std::byte* aligned(std::byte* p) {
  const auto address = reinterpret_cast<uintptr_t>(p);
  return p + (kAlignment - address % kAlignment) % kAlignment;
}

/// A net has many layers of the same shapes, and cuDNN takes milliseconds to answer. A reference
/// stays valid.
const std::vector<ConvolutionPlan>& known_plans(const Gpu& gpu, const Convolution& convolution) {
  static std::mutex mutex;
  // Never destroyed: at the process's end cuDNN may have gone before.
  static auto& known =
      *new std::map<std::pair<const Gpu*, std::string>, std::vector<ConvolutionPlan>>;
  const std::lock_guard lock(mutex);
  const std::pair key(&gpu, convolution.key());
  const auto it = known.find(key);
  if (it != known.end()) return it->second;
  return known.emplace(key, convolution_plans(convolution, gpu.cudnn_properties())).first->second;
}

struct Addresses {
  void *x, *weights, *y;
  void* bias;  // or its gradient; null without
  void* workspace;
};

/// Of computing products: as ConvolutionPlan.
struct Way {
  std::string name;
  size_t workspace_bytes;
  bool whole;  // it adds the bias and applies the activation, or has the bias's gradient, too
  std::function<std::function<void()>(const Addresses&)> bind;
};

/// A layer, and how its tensors lie: channels last, or the row-major matrices of a dense layer.
struct Products {
  explicit Products(const PrepareContext& context)
      : context(context),
        convolution(Convolution::of(context.graph, context.node, context.precision,
                                    context.tf32 && context.precision == DType::f32)),
        output{context.precision,
               convolution.y.elements() / convolution.y[1],
               convolution.y[1],
               {gpu().has_clusters(), context.crowded}} {}

  const Gpu& gpu() const { return dynamic_cast<const Gpu&>(context.device); }
  bool is_dense() const { return context.node.op->name.starts_with("dense"); }
  Activation activation() const {
    const bool may_have = is_dense() && convolution.pass == Pass::forward;
    return may_have ? context.node.attrs<DenseAttributes>().activation : Activation::none;
  }
  /// Of a forward pass, or its gradient.
  bool with_bias() const {
    return convolution.pass == Pass::forward ? context.node.has_input(2)
                                             : context.node.outputs.size() > 1;
  }
  Layout layout(const Shape& shape) const {
    return is_dense() ? Layout::plain(shape, context.precision)
                      : Layout::channels_last(shape, context.precision);
  }
  Layout input(size_t i) const { return layout(context.input_type(i).shape); }
  Layout result() const { return layout(context.node.outputs[0].shape); }
  Layout bias() const { return Layout::plain({output.channels}, DType::f32); }

  /// What cuBLASLt can do of what follows the products, with a bias of f32. Its ReLU is left out:
  /// ours keeps NaN, which a maximum may not.
  cublasLtEpilogue_t epilogue() const {
    if (context.precision != DType::f32 || !with_bias() || activation() != Activation::none) {
      return CUBLASLT_EPILOGUE_DEFAULT;
    }
    return convolution.pass == Pass::forward ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_BGRADB;
  }

  /// Adds those of a dense layer by cuBLASLt, whose columns are our rows.
  void add_matrix_ways(cublasLtEpilogue_t epilogue, std::vector<Way>& ways) const {
    const Convolution& c = convolution;
    const int64_t rows = c.x[0], inputs = c.x[1], outputs = c.y[1];
    MatrixProduct product{outputs, rows,    inputs, true,
                          false,   c.dtype, c.tf32, epilogue};  // weights, x -> y
    if (c.pass == Pass::grad_input) {                           // weights, y -> x
      product.rows = inputs, product.inner = outputs, product.transpose_a = false;
    }
    if (c.pass == Pass::grad_weights) {  // x, y -> weights
      product.rows = inputs, product.columns = outputs, product.inner = rows;
      product.transpose_a = false, product.transpose_b = true;
    }
    const bool whole = epilogue != CUBLASLT_EPILOGUE_DEFAULT;
    for (const MatrixPlan& plan : matrix_plans(product, *gpu().index())) {
      ways.push_back({plan.name + (whole ? ", whole" : ""), plan.workspace_bytes, whole,
                      [plan, whole, pass = c.pass](const Addresses& o) {
                        void* const a = pass == Pass::grad_weights ? o.x : o.weights;
                        void* const b = pass == Pass::forward ? o.x : o.y;
                        void* const d = pass == Pass::forward      ? o.y
                                        : pass == Pass::grad_input ? o.x
                                                                   : o.weights;
                        return plan.bind(a, b, d, whole ? o.bias : nullptr, o.workspace);
                      }});
    }
  }

  /// All that computes the products.
  std::vector<Way> ways() const {
    std::vector<Way> ways;
    if (is_dense() && gpu().index()) {
      if (epilogue() != CUBLASLT_EPILOGUE_DEFAULT) add_matrix_ways(epilogue(), ways);
      add_matrix_ways(CUBLASLT_EPILOGUE_DEFAULT, ways);
    }
    for (const ConvolutionPlan& plan : known_plans(gpu(), convolution)) {
      ways.push_back({plan.name, plan.workspace_bytes, false, [=](const Addresses& o) {
                        return plan.bind(o.x, o.weights, o.y, o.workspace);
                      }});
    }
    is_dense() ? add_few_rows(ways) : add_grad_weights(ways);
    return ways;
  }

  void add_few_rows(std::vector<Way>& ways) const {
    const Convolution& c = convolution;
    const FewRowsShape shape{context.precision, c.x[0], c.x[1], c.y[1]};
    if (!kFewRows.is_made_for(shape)) return;
    ways.push_back(
        {kFew, 0, true, [=, pass = c.pass, activation = activation()](const Addresses& o) {
           auto* const bias = static_cast<float*>(o.bias);
           const Call call = pass == Pass::forward
                                 ? kFewRows.forward(shape, activation, o.x, o.weights, bias, o.y)
                             : pass == Pass::grad_input
                                 ? kFewRows.grad_input(shape, o.y, o.weights, o.x)
                                 : kFewRows.grad_weights(shape, o.x, o.y, o.weights, bias);
           return [call] { call(Step()); };
         }});
  }

  void add_grad_weights(std::vector<Way>& ways) const {
    const bool in_groups = convolution.weights[1] != convolution.x[1];
    if (in_groups || convolution.pass != Pass::grad_weights) return;
    const auto images = [](const Shape& s) { return GradWeightsShape::Images{s[2], s[3], s[1]}; };
    const GradWeightsShape shape{context.precision, convolution.x[0], images(convolution.x),
                                 images(convolution.y), convolution.axes};
    if (const auto bytes = kGradWeights.scratch_bytes(shape)) {
      ways.push_back({kOurs, *bytes, false, [=](const Addresses& o) {
                        const Call call =
                            kGradWeights.make(shape, o.x, o.y, o.weights, o.workspace);
                        return [call] { call(Step()); };
                      }});
    }
  }

  /// The best way. `bind(way, operands, workspace)` is its call; the scratch begins with
  /// `own_bytes` that are not the way's.
  template <typename Bind>
  PreparedKernel best(const std::vector<Layout>& inputs, const std::vector<Layout>& outputs,
                      size_t own_bytes, const Bind& bind) const {
    std::vector<PreparedKernel> candidates;
    for (const Way& way : ways()) {
      const size_t bytes = own_bytes + kAlignment + way.workspace_bytes;
      PreparedKernel kernel{inputs, outputs, bytes, way.name, {}};
      kernel.bind = [=](const Operands& o) -> Call {
        return bind(way, o, aligned(static_cast<std::byte*>(o.scratch) + own_bytes));
      };
      candidates.push_back(std::move(kernel));
    }
    if (candidates.empty()) {
      fail("there is no way to compute {} on {}", convolution.key(), gpu().name());
    }
    const std::string key =
        fmt::format("{} by {} on {}", convolution.key(), libraries(candidates), gpu().name());
    return choose(context, key, std::move(candidates));
  }

  /// Whose choices these are, and what follows that some do too.
  std::string libraries(const std::vector<PreparedKernel>& candidates) const {
    std::string all = "cuDNN " + cudnn_version();
    const std::string& last = candidates.back().implementation;
    if (last == kOurs || last == kFew) all += " or " + last;
    if (!is_dense()) return all;
    if (gpu().index()) all += " or cuBLASLt " + cublaslt_version();
    if (with_bias()) all += ", with a bias";
    if (activation() != Activation::none) all += fmt::format(", {}", name_of(activation()));
    return all;
  }

  const PrepareContext& context;
  const Convolution convolution;
  const BiasShape output;
};

Call in_turn(std::function<void()> products, Call rest) {
  return [products = std::move(products), rest = std::move(rest)](const Step& step) {
    products();
    if (rest) rest(step);
  };
}

PreparedKernel prepare(const PrepareContext& context) {
  const Products p(context);
  const bool with_bias = p.with_bias();
  return p.best(
      {p.input(0), p.input(1), with_bias ? p.bias() : Layout{}}, {p.result()}, 0,
      [=, output = p.output, activation = p.activation()](const Way& way, const Operands& o,
                                                          void* workspace) {
        void* const bias = with_bias ? o.inputs[2] : nullptr;
        Call rest;
        if (!way.whole && (bias || activation != Activation::none)) {
          rest = kBias.add(output, activation, o.outputs[0], static_cast<const float*>(bias));
        }
        return in_turn(way.bind({o.inputs[0], o.inputs[1], o.outputs[0], bias, workspace}),
                       std::move(rest));
      });
}

PreparedKernel prepare_grad_input(const PrepareContext& context) {
  const Products p(context);
  return p.best(
      {p.input(0), p.input(1)}, {p.result()}, 0,
      [](const Way& way, const Operands& o, void* workspace) {
        return in_turn(way.bind({o.outputs[0], o.inputs[1], o.inputs[0], nullptr, workspace}), {});
      });
}

PreparedKernel prepare_grad_weights(const PrepareContext& context) {
  const Products p(context);
  std::vector<Layout> outputs{p.result()};
  const bool with_bias = p.with_bias();
  if (with_bias) outputs.push_back(p.bias());
  return p.best({p.input(0), p.input(1)}, outputs, with_bias ? kBias.scratch_bytes(p.output) : 0,
                [=, output = p.output](const Way& way, const Operands& o, void* workspace) {
                  void* const bias = with_bias ? o.outputs[1] : nullptr;
                  Call rest;
                  if (!way.whole && bias) {
                    rest = kBias.sum(output, o.inputs[1], static_cast<float*>(bias), o.scratch);
                  }
                  return in_turn(
                      way.bind({o.inputs[0], o.outputs[0], o.inputs[1], bias, workspace}),
                      std::move(rest));
                });
}

const RegisterKernel kConv2d{"cuda", "conv2d", prepare};
const RegisterKernel kConv2dGradInput{"cuda", "conv2d_grad_input", prepare_grad_input};
const RegisterKernel kConv2dGradWeights{"cuda", "conv2d_grad_weights", prepare_grad_weights};
const RegisterKernel kDense{"cuda", "dense", prepare};
const RegisterKernel kDenseGradInput{"cuda", "dense_grad_input", prepare_grad_input};
const RegisterKernel kDenseGradWeights{"cuda", "dense_grad_weights", prepare_grad_weights};

}  // namespace
}  // namespace crossbow::cuda
