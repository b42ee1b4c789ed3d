// Every node of a net by itself against the reference in double: the reference computes it from
// what the device under test handed to it, so that no layer amplifies the rounding of those before
// it, and the node that is wrong is the one that is named.
#pragma once

#include <string>
#include <vector>

#include "support/graph_testing.h"

namespace crossbow::testing {

/// The graph with every number in it among its outputs, as differing_nodes needs it.
Graph with_all_values_named(Graph graph);

/// Runs `net` once, of a graph from with_all_values_named; a sentence for each node whose results
/// are not the reference's within the rounding of `precision`.
std::vector<std::string> differing_nodes(GraphRun& net, DType precision);

}  // namespace crossbow::testing
