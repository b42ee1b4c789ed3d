// How passes are written: walk a graph in order and build another one, copying most nodes.
#pragma once

#include <algorithm>
#include <map>
#include <memory>

#include "core/error.h"
#include "graph/op.h"

namespace crossbow {

class Rewriter {
 public:
  explicit Rewriter(const Graph& from) : from_(from), to_(from.name()) {}

  Graph& graph() { return to_; }
  /// The new graph's value for one of the old graph; absent stays absent.
  Value mapped(Value old) const {
    if (!old) return old;
    const auto it = map_.find(old);
    if (it == map_.end()) fail("layer {} was dropped but is used", from_.node(old).name);
    return it->second;
  }
  void replace(Value old, Value by) { map_[old] = by; }
  /// Copies a node; `attributes` null: its own.
  void copy(int32_t id, std::shared_ptr<const Attributes> attributes = nullptr) {
    const Node& node = from_.nodes()[id];
    replace_node(id, *node.op, node.inputs, attributes ? attributes : node.attributes, node.name);
  }
  /// Appends a node whose outputs stand for those of old node `id`; its inputs are given as values
  /// of the old graph.
  void replace_node(int32_t id, const Op& op, std::vector<Value> old_inputs,
                    std::shared_ptr<const Attributes> attributes, const std::string& name) {
    for (Value& v : old_inputs) v = mapped(v);
    const Value first = to_.append(op, std::move(old_inputs), std::move(attributes), name).value;
    const size_t outputs =
        std::min(from_.nodes()[id].outputs.size(), to_.node(first).outputs.size());
    for (size_t i = 0; i < outputs; ++i) {
      replace({id, static_cast<int32_t>(i)}, {first.node, static_cast<int32_t>(i)});
    }
  }

 private:
  const Graph& from_;
  Graph to_;
  std::map<Value, Value> map_;
};

/// Calls `visit(rewriter, node id)` for every node in order and carries the named outputs over.
template <typename Visit>
Graph rewrite(const Graph& graph, Visit visit) {
  Rewriter rewriter(graph);
  for (size_t id = 0; id < graph.nodes().size(); ++id) visit(rewriter, static_cast<int32_t>(id));
  for (const auto& [name, v] : graph.outputs()) {
    rewriter.graph().set_output(name, rewriter.mapped(v));
  }
  return std::move(rewriter.graph());
}

}  // namespace crossbow
