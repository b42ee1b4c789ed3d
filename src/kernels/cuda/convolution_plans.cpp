#include "kernels/cuda/convolution_plans.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "core/error.h"
#include "graph/op.h"

namespace crossbow::cuda {
namespace {

using Pass = Convolution::Pass;

constexpr int64_t kX = 1, kWeights = 2, kY = 3, kAlignment = 16;
constexpr int64_t kMostConfigurations = 64;  // by one heuristic; the best come first
constexpr size_t kMostPlans = 12;            // each of which is tried for milliseconds

cudnnDataType_t type_of(DType dtype) {
  return dtype == DType::bf16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
}

CudnnObject tensor(int64_t id, const Shape& s, DType dtype) {
  const std::array sizes{s[0], s[1], s[2], s[3]};
  const std::array strides{s[1] * s[2] * s[3], int64_t{1}, s[1] * s[3], s[1]};
  CudnnObject object(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  object.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id);
  object.set(CUDNN_ATTR_TENSOR_DATA_TYPE, type_of(dtype));
  object.set(CUDNN_ATTR_TENSOR_DIMENSIONS, std::span<const int64_t>(sizes));
  object.set(CUDNN_ATTR_TENSOR_STRIDES, std::span<const int64_t>(strides));
  object.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, kAlignment);
  object.finish();
  return object;
}

CudnnObject window(const WindowAxes& axes) {
  CudnnObject object(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  object.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, int64_t{2});
  object.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT);
  object.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CROSS_CORRELATION);
  const auto set = [&](cudnnBackendAttributeName_t name, int64_t WindowAxis::*of) {
    const std::array values{axes[0].*of, axes[1].*of};
    object.set(name, std::span<const int64_t>(values));
  };
  set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, &WindowAxis::before);
  set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, &WindowAxis::after);
  set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, &WindowAxis::stride);
  set(CUDNN_ATTR_CONVOLUTION_DILATIONS, &WindowAxis::dilation);
  object.finish();
  return object;
}

/// cuDNN's names for a pass and its operands.
struct Names {
  cudnnBackendDescriptorType_t operation;
  cudnnBackendAttributeName_t x, weights, y, window, alpha, beta;
};

Names names_of(Pass pass) {
  switch (pass) {
    case Pass::forward:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
    case Pass::grad_input:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
    case Pass::grad_weights:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
  }
  fail("there is no such pass of a convolution");
}

CudnnObject graph_of(const Convolution& c) {
  const Names names = names_of(c.pass);
  CudnnObject operation(names.operation);
  operation.set(names.x, tensor(kX, c.x, c.dtype));
  operation.set(names.weights, tensor(kWeights, c.weights, c.dtype));
  operation.set(names.y, tensor(kY, c.y, c.dtype));
  operation.set(names.window, window(c.axes));
  operation.set(names.alpha, 1.0f);
  operation.set(names.beta, 0.0f);
  operation.finish();
  CudnnObject graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operation);
  graph.finish();
  return graph;
}

bool is_wanted(const CudnnObject& engine, const Convolution& c) {
  std::vector<cudnnBackendNumericalNote_t> unwanted{
      CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6,
      CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13, CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION};
  if (c.dtype == DType::f32 && !c.tf32) {
    unwanted.insert(unwanted.end(),
                    {CUDNN_NUMERICAL_NOTE_TENSOR_CORE, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS});
  }
  const auto notes = engine.get<cudnnBackendNumericalNote_t>(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE);
  return std::ranges::find_first_of(notes, unwanted) == notes.end();
}

/// Of an engine with its settings.
std::string name_of(const CudnnObject& configuration, const CudnnObject& engine) {
  std::string name =
      fmt::format("engine {}", engine.get<int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX).at(0));
  const char* before = ",";
  for (const CudnnObject& choice :
       configuration.get_objects(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
                                 CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, CUDNN_KNOB_TYPE_COUNTS)) {
    const auto knob = choice.get<cudnnBackendKnobType_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE).at(0);
    const auto value = choice.get<int64_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE).at(0);
    name += fmt::format("{} {}={}", std::exchange(before, ""), static_cast<int>(knob), value);
  }
  return name;
}

std::vector<CudnnObject> configurations(const CudnnObject& graph, cudnnBackendHeurMode_t mode,
                                        const CudnnObject& gpu) {
  CudnnObject heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_MODE, mode);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, gpu);
  if (heuristics.is_unsupported_when_finished()) return {};
  return heuristics.get_objects(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR,
                                kMostConfigurations);
}

/// A dense layer's matrix, or images that it reads as one.
Shape image_of(const Shape& s) {
  return {s[0], s.elements_from(1), 1, 1};
}

}  // namespace

Convolution Convolution::of(const Graph& graph, const Node& node, DType dtype, bool tf32) {
  const Shape first = graph.type(node.inputs[0]).shape, second = graph.type(node.inputs[1]).shape;
  const Shape& result = node.outputs[0].shape;
  const std::string_view op = node.op->name;
  if (op.starts_with("dense")) {
    const WindowAxis pixel{1, 1, 1, 0, 0};
    const auto of = [&](Pass pass, const Shape& x, const Shape& weights, const Shape& y) {
      return Convolution{pass,  image_of(x), image_of(weights), image_of(y), {pixel, pixel},
                         dtype, tf32};
    };
    if (op == "dense_grad_input") return of(Pass::grad_input, result, second, first);
    if (op == "dense_grad_weights") return of(Pass::grad_weights, first, result, second);
    return of(Pass::forward, first, second, result);
  }
  if (op == "conv2d") {
    const auto& a = node.attrs<Conv2dAttributes>();
    return {Pass::forward, first, second, result, a.axes(second), dtype, tf32};
  }
  const auto& a = node.attrs<Conv2dGradAttributes>();
  if (op == "conv2d_grad_input") {
    return {Pass::grad_input, result, second, first, a.axes(second), dtype, tf32};
  }
  return {Pass::grad_weights, first, result, second, a.axes(result), dtype, tf32};
}

std::string Convolution::key() const {
  const auto axis = [](const WindowAxis& a) {
    return fmt::format("{}+{}+{} by {}, every {}", a.before, a.kernel, a.after, a.stride,
                       a.dilation);
  };
  constexpr const char* kPasses[] = {"convolution", "its grad_input", "its grad_weights"};
  return fmt::format("{} {} x{} w{} y{} {}, {}", kPasses[static_cast<int>(pass)],
                     tf32 ? "tf32" : crossbow::name_of(dtype), x.str(), weights.str(), y.str(),
                     axis(axes[0]), axis(axes[1]));
}

std::function<void()> ConvolutionPlan::bind(void* x, void* weights, void* y,
                                            void* workspace) const {
  const std::array ids{kX, kWeights, kY};
  const std::array addresses{x, weights, y};
  const auto operands = std::make_shared<CudnnObject>(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  operands->set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, std::span<const int64_t>(ids));
  operands->set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, std::span<void* const>(addresses));
  operands->set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, workspace);
  operands->finish();
  return [plan = plan_, operands] { plan->execute(*operands); };
}

std::vector<ConvolutionPlan> convolution_plans(const Convolution& c, const CudnnObject& gpu) {
  const CudnnObject graph = graph_of(c);
  std::vector<ConvolutionPlan> plans;
  std::set<std::string> known;
  for (const auto mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    if (!plans.empty()) break;
    for (const CudnnObject& configuration : configurations(graph, mode, gpu)) {
      if (plans.size() == kMostPlans) break;
      const std::vector<CudnnObject> engines = configuration.get_objects(
          CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR, 1);
      if (!is_wanted(engines.at(0), c)) continue;
      const std::string name = name_of(configuration, engines[0]);
      if (!known.insert(name).second) continue;
      CudnnObject plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
      plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
      plan.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, gpu);
      if (plan.is_unsupported_when_finished()) continue;
      const int64_t bytes = plan.get<int64_t>(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE).at(0);
      plans.emplace_back(name, static_cast<size_t>(bytes), std::move(plan));
    }
  }
  return plans;
}

}  // namespace crossbow::cuda
