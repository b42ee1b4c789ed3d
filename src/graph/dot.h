// A graph as a picture: Graphviz text.
#pragma once

#include <string>

#include "graph/graph.h"

namespace crossbow {

/// Layers grouped in boxes by the scopes in their names, edges labelled with shapes; parameters and
/// states are folded into the layer that reads them.
std::string to_dot(const Graph& graph);

}  // namespace crossbow
