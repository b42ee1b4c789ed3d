// What an op is: one table entry a file in ops/ fills in and registers under its name. Kernels
// and tests find ops through the registry; there is no central list.
#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/graph.h"

namespace crossbow {

/// What a gradient rule sees of the node that it differentiates. Gradients are new nodes of the
/// same graph, made with the functions of ops/.
class GradientContext {
 public:
  GradientContext(Graph& graph, int32_t node, std::vector<Value> output_gradients,
                  std::vector<bool> wanted);

  /// A copy, since appending to the graph moves its nodes.
  const Node& node() const { return node_; }
  Graph& graph() const { return graph_; }
  Tensor input(int i) const { return {&graph_, node_.inputs[i]}; }
  Tensor output(int i = 0) const { return {&graph_, {id_, i}}; }
  /// d(loss) / d(output i); absent if the loss does not depend on it.
  Tensor output_gradient(int i = 0) const { return {&graph_, output_gradients_[i]}; }
  /// Whether d(loss) / d(input i) is needed by anything; computing it otherwise is waste.
  bool wanted(int i) const { return wanted_[i]; }
  void set(int input, Tensor gradient) { input_gradients_[input] = gradient.value; }
  const std::vector<Value>& input_gradients() const { return input_gradients_; }

 private:
  Graph& graph_;
  int32_t id_;
  Node node_;
  std::vector<Value> output_gradients_, input_gradients_;
  std::vector<bool> wanted_;
};

/// Builds one sample use of an op for tests and benchmarks. Everything made by `input` is a
/// parameter of the case's graph, so its gradient is checked too.
class CaseBuilder {
 public:
  explicit CaseBuilder(Graph& graph) : graph_(graph) {}
  Graph& graph() { return graph_; }
  /// Uniform random values in [low, high).
  Tensor input(Shape shape, float low = -1, float high = 1);
  /// Random class labels, int32 [n].
  Tensor labels(int64_t n, int64_t classes);
  /// What a loss compares with, fed by the step (slot 1): random values in [0, 1).
  Tensor targets(Shape shape);
  /// Running statistics and the like: not differentiated.
  Tensor state(Shape shape, float value);

 private:
  Graph& graph_;
};

struct Case {
  std::string name;
  std::function<Tensor(CaseBuilder&)> build;  // returns the op's output to check
  bool small = true;                          // few enough elements for finite differences
  bool differentiable = true;                 // false: only the forward value can be checked
};

struct Op {
  std::string_view name;
  /// Output types; throws Error (text without the layer's name, which the graph adds).
  std::vector<TensorType> (*infer)(const Node& node, std::span<const TensorType> inputs);
  /// Null: not differentiable (its inputs get no gradient).
  void (*gradient)(GradientContext& context) = nullptr;
  /// Floating-point operations of one run, a multiply-add counted as two; null: negligible.
  double (*flops)(const Node& node, std::span<const TensorType> inputs) = nullptr;
  /// (input, output) pairs where the output may overwrite the input's memory, element by element.
  std::vector<std::pair<int, int>> in_place = {};
  std::vector<Case> (*cases)() = nullptr;
};

/// Adds to the registry. Throws Error if there is an op of that name.
const Op& register_op(Op op);
/// Throws Error if there is none of that name.
const Op& find_op(std::string_view name);
std::vector<const Op*> all_ops();

}  // namespace crossbow
