#include "passes/autodiff.h"

#include "core/error.h"
#include "graph/op.h"
#include "graph/source.h"
#include "ops/elementwise.h"

namespace crossbow {
namespace {

bool is_trained(const Node& node) {
  return node.op->name == "parameter" && !node.attrs<ParameterAttributes>().frozen;
}

/// Nodes on a path from a parameter that is trained.
std::vector<bool> depends_on_parameters(const Graph& graph) {
  std::vector<bool> depends(graph.nodes().size());
  for (size_t i = 0; i < depends.size(); ++i) {
    const Node& node = graph.nodes()[i];
    depends[i] = is_trained(node);
    for (Value v : node.inputs) depends[i] = depends[i] || (v && depends[v.node]);
  }
  return depends;
}

}  // namespace

Value objective(const Graph& graph) {
  return graph.output(graph.outputs().contains("objective") ? "objective" : "loss");
}

void differentiate(Graph& graph, Value loss) {
  if (graph.type(loss).shape.elements() != 1) {
    fail("a loss must be a scalar, but {} has shape {}", graph.node(loss).name,
         graph.type(loss).shape.str());
  }
  const std::vector<bool> depends = depends_on_parameters(graph);
  std::map<Value, Value> gradients;  // of each value, the sum over the uses seen so far
  gradients[loss] = fill(graph, graph.type(loss).shape, 1).value;

  for (int32_t id = loss.node; id >= 0; --id) {
    const Node node = graph.nodes()[id];
    std::vector<Value> output_gradients(node.outputs.size());
    bool reached = false;
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const auto it = gradients.find({id, static_cast<int32_t>(i)});
      if (it != gradients.end()) output_gradients[i] = it->second;
      reached = reached || output_gradients[i];
    }
    if (!reached || !depends[id]) continue;
    if (node.op->name == "parameter") {
      graph.set_output("gradient:" + node.name, output_gradients[0]);
      continue;
    }
    for (size_t i = 1; i < output_gradients.size(); ++i) {
      if (output_gradients[i]) {
        fail("layer {}: only the first result of {} can be trained through", node.name,
             node.op->name);
      }
    }
    if (!node.op->gradient) {
      fail("layer {}: the op {} has no gradient, but parameters before it are trained through it",
           node.name, node.op->name);
    }
    std::vector<bool> wanted;
    for (Value v : node.inputs) wanted.push_back(v && depends[v.node]);
    const auto scope = graph.scope(node.name);
    GradientContext context(graph, id, std::move(output_gradients), wanted);
    node.op->gradient(context);
    for (size_t i = 0; i < wanted.size(); ++i) {
      const Value gradient = context.input_gradients()[i];
      if (!wanted[i] || !gradient) continue;
      const auto [it, first] = gradients.emplace(node.inputs[i], gradient);
      if (!first) it->second = add({&graph, it->second}, {&graph, gradient}).value;
    }
  }
}

}  // namespace crossbow
