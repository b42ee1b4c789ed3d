// A graph as a picture: Graphviz text.
#pragma once

#include <functional>
#include <string>

#include "graph/graph.h"

namespace crossbow {

/// Layers grouped in boxes by the scopes in their names, edges labelled with shapes; parameters and
/// states are folded into the layer that reads them first. `op_text` is what a node says of its op;
/// the op's name unless given.
std::string to_dot(const Graph& graph, const std::function<std::string(const Node&)>& op_text = {});

}  // namespace crossbow
