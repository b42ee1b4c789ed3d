#include "graph/graph.h"

#include <fmt/ranges.h>

#include "core/error.h"
#include "graph/op.h"

namespace crossbow {

std::vector<TensorType> Graph::input_types(const Node& node) const {
  std::vector<TensorType> types;
  for (Value v : node.inputs) types.push_back(v ? type(v) : TensorType{});
  return types;
}

Tensor Graph::append(const Op& op, std::vector<Value> inputs,
                     std::shared_ptr<const Attributes> attributes, std::string name) {
  Node node;
  node.op = &op;
  node.name = scope_ + free_name(name.empty() ? std::string(op.name) : name);
  node.inputs = std::move(inputs);
  node.attributes = std::move(attributes);
  try {
    node.outputs = op.infer(node, input_types(node));
  } catch (const Error& e) {
    throw Error(fmt::format("layer {}: {}", node.name, e.what()));
  }
  used_names_.insert(node.name);
  nodes_.push_back(std::move(node));
  return {this, {static_cast<int32_t>(nodes_.size()) - 1, 0}};
}

std::string Graph::free_name(const std::string& name) const {
  std::string candidate = name;
  for (int i = 1; used_names_.count(scope_ + candidate); ++i) {
    candidate = fmt::format("{}_{}", name, i);
  }
  return candidate;
}

Value Graph::output(const std::string& name) const {
  const auto it = outputs_.find(name);
  if (it == outputs_.end()) {
    std::vector<std::string> names;
    for (const auto& [known, value] : outputs_) names.push_back(known);
    fail("graph {} has no output '{}'; it has: {}", name_, name, fmt::join(names, ", "));
  }
  return it->second;
}

std::vector<int32_t> Graph::find(std::string_view op_name) const {
  std::vector<int32_t> ids;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].op->name == op_name) ids.push_back(static_cast<int32_t>(i));
  }
  return ids;
}

std::vector<int> Graph::use_counts() const {
  std::vector<int> counts(nodes_.size());
  for (const Node& node : nodes_) {
    for (Value v : node.inputs) {
      if (v) ++counts[v.node];
    }
  }
  for (const auto& [name, v] : outputs_) ++counts[v.node];
  return counts;
}

Graph::Scope::Scope(Graph& graph, std::string_view name)
    : graph_(graph), previous_(graph.scope_.size()) {
  graph_.scope_ += std::string(name) + ".";
}

Graph::Scope::~Scope() {
  graph_.scope_.resize(previous_);
}

}  // namespace crossbow
