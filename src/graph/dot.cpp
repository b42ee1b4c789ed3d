#include "graph/dot.h"

#include <fmt/format.h>

#include <iterator>
#include <map>
#include <set>

#include "graph/op.h"

namespace crossbow {
namespace {

bool folded(const Node& node) {
  return node.op->name == "parameter" || node.op->name == "state";
}

/// `told` are the parameters of the nodes before, to which this one's are added.
std::string label(const Graph& graph, const Node& node, const std::string& op,
                  std::set<int32_t>& told) {
  std::string text = fmt::format("{}\\n{}", node.name, op);
  for (Value v : node.inputs) {
    if (v && graph.node(v).op->name == "parameter" && told.insert(v.node).second) {
      text += "\\n" + graph.type(v).shape.str();
    }
  }
  return text;
}

std::string_view colour(const Node& node) {
  const std::string_view op = node.op->name;
  if (op == "input") return "#dddddd";
  if (op.find("_grad") != op.npos) return "#f6d8c8";
  if (op == "conv2d" || op == "dense") return "#c8dcf6";
  return "#ffffff";
}

/// The scope of "stage1.block0.conv1" is "stage1.block0".
std::string scope_of(const std::string& name) {
  const size_t dot = name.rfind('.');
  return dot == name.npos ? "" : name.substr(0, dot);
}

}  // namespace

std::string to_dot(const Graph& graph, const std::function<std::string(const Node&)>& op_text) {
  std::string out = fmt::format(
      "digraph \"{}\" {{\n  rankdir=TB;\n  node [shape=box style=\"rounded,filled\" "
      "fontname=Helvetica fontsize=10];\n  edge [fontname=Helvetica fontsize=8];\n",
      graph.name());
  std::map<std::string, std::string> clusters;
  std::set<int32_t> told;
  for (size_t id = 0; id < graph.nodes().size(); ++id) {
    const Node& node = graph.nodes()[id];
    if (folded(node)) continue;
    const std::string op = op_text ? op_text(node) : std::string(node.op->name);
    fmt::format_to(std::back_inserter(clusters[scope_of(node.name)]),
                   "    n{} [label=\"{}\" fillcolor=\"{}\"];\n", id, label(graph, node, op, told),
                   colour(node));
  }
  for (const auto& [scope, nodes] : clusters) {
    if (scope.empty()) {
      out += nodes;
    } else {
      out += fmt::format(
          "  subgraph \"cluster_{}\" {{\n    label=\"{}\" style=rounded "
          "color=\"#999999\" fontname=Helvetica fontsize=10;\n{}  }}\n",
          scope, scope, nodes);
    }
  }
  for (size_t id = 0; id < graph.nodes().size(); ++id) {
    for (Value v : graph.nodes()[id].inputs) {
      if (!v || folded(graph.node(v))) continue;
      out += fmt::format("  n{} -> n{} [label=\"{}\"];\n", v.node, id, graph.type(v).shape.str());
    }
  }
  for (const auto& [name, v] : graph.outputs()) {
    out += fmt::format("  \"{}\" [shape=plaintext style=\"\"];\n  n{} -> \"{}\";\n", name, v.node,
                       name);
  }
  return out + "}\n";
}

}  // namespace crossbow
