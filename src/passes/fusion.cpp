#include <fmt/format.h>

#include <optional>

#include "ops/activation.h"
#include "ops/batch_norm.h"
#include "ops/dense.h"
#include "ops/elementwise.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace crossbow {
namespace {

/// A node and the producer that it melts into: one node computes both.
struct Fusion {
  int32_t producer;
  std::vector<Value> inputs;
  std::shared_ptr<const Attributes> attributes;
};

template <typename T, typename Change>
std::shared_ptr<const Attributes> changed(const Node& node, Change change) {
  auto attributes = std::make_shared<T>(node.attrs<T>());
  change(*attributes);
  return attributes;
}

/// A bias alone, after a convolution or dense layer that has none.
std::optional<Fusion> fuse_bias(const Graph& graph, const Node& node) {
  if (node.op->name != "scale_bias" || node.has_input(1)) return {};
  const Node& producer = graph.node(node.inputs[0]);
  const bool linear = producer.op->name == "conv2d" || producer.op->name == "dense";
  if (!linear || producer.has_input(2)) return {};
  const bool activated = producer.op->name == "dense" &&
                         producer.attrs<DenseAttributes>().activation != Activation::none;
  if (activated) return {};  // the bias comes after the activation
  return Fusion{node.inputs[0].node,
                {producer.inputs[0], producer.inputs[1], node.inputs[2]},
                producer.attributes};
}

std::optional<Fusion> fuse_activation(const Graph& graph, const Node& node) {
  const std::string_view op = node.op->name;
  if (op != "relu" && op != "relu6" && op != "sigmoid" && op != "tanh") return {};
  if (node.inputs[0].output != 0) return {};  // a batch norm's statistics
  const Node& producer = graph.node(node.inputs[0]);
  std::shared_ptr<const Attributes> attributes;
  if (producer.op->name == "dense" &&
      producer.attrs<DenseAttributes>().activation == Activation::none) {
    attributes = changed<DenseAttributes>(
        producer, [&](auto& a) { a.activation = node.attrs<ActivationAttributes>().activation; });
  } else if ((op == "relu" || (op == "relu6" && !producer.has_input(5))) &&
             producer.op->name == "batch_norm" &&
             producer.attrs<BatchNormAttributes>().activation == Activation::none) {
    attributes = changed<BatchNormAttributes>(
        producer, [&](auto& a) { a.activation = node.attrs<ActivationAttributes>().activation; });
  } else if (op == "relu" && producer.op->name == "add" && !producer.attrs<AddAttributes>().relu) {
    attributes = changed<AddAttributes>(producer, [](auto& a) { a.relu = true; });
  } else {
    return {};
  }
  return Fusion{node.inputs[0].node, producer.inputs, attributes};
}

/// Batch norm + addition, the end of a residual block (its ReLU joins in the next round). Where
/// both operands are batch norms, the second one takes the addition.
std::optional<Fusion> fuse_residual(const Graph& graph, const Node& node,
                                    const std::vector<int>& uses) {
  if (node.op->name != "add" || node.attrs<AddAttributes>().relu ||
      node.inputs[0] == node.inputs[1])
    return {};
  for (int side : {1, 0}) {
    const Value value = node.inputs[side];
    const Node& producer = graph.node(value);
    if (producer.op->name != "batch_norm" || value.output != 0 || uses[value.node] != 1) continue;
    const bool activated = producer.attrs<BatchNormAttributes>().activation != Activation::none;
    if (activated || producer.has_input(5)) continue;
    Fusion fusion{value.node, producer.inputs, producer.attributes};
    fusion.inputs.resize(5);
    fusion.inputs.push_back(node.inputs[1 - side]);
    return fusion;
  }
  return {};
}

/// One round; each node takes part in at most one fusion.
Graph fuse_round(const Graph& graph, bool& any) {
  const std::vector<int> uses = graph.use_counts();
  std::map<int32_t, Fusion> fusions;  // by the consumer's id
  std::vector<bool> taken(graph.nodes().size());
  for (int32_t id = 0; id < static_cast<int32_t>(taken.size()); ++id) {
    const Node& node = graph.nodes()[id];
    auto fusion = fuse_bias(graph, node);
    if (!fusion) fusion = fuse_activation(graph, node);
    if (!fusion) fusion = fuse_residual(graph, node, uses);
    if (!fusion || uses[fusion->producer] != 1 || taken[fusion->producer]) continue;
    taken[id] = taken[fusion->producer] = any = true;
    fusions.emplace(id, std::move(*fusion));
  }
  return rewrite(graph, [&](Rewriter& r, int32_t id) {
    const auto it = fusions.find(id);
    if (it != fusions.end()) {
      const Node& producer = graph.nodes()[it->second.producer];
      r.replace_node(id, *producer.op, it->second.inputs, it->second.attributes, producer.name);
    } else if (!taken[id]) {
      r.copy(id);
    }
  });
}

}  // namespace

Graph fuse(const Graph& graph) {
  Graph result = graph;
  for (bool any = true; any;) {
    any = false;
    result = fuse_round(result, any);
  }
  return result;
}

std::string fused_name(const Node& node) {
  const std::string_view op = node.op->name;
  std::string name(op);
  Activation activation = Activation::none;
  if (op == "dense") activation = node.attrs<DenseAttributes>().activation;
  if (op == "batch_norm" && node.has_input(5)) name += " + add";
  if (op == "batch_norm") activation = node.attrs<BatchNormAttributes>().activation;
  if (op == "add" && node.attrs<AddAttributes>().relu) activation = Activation::relu;
  if (activation != Activation::none) name += fmt::format(" + {}", name_of(activation));
  return name;
}

}  // namespace crossbow
