// Reverse-mode automatic differentiation: one joint forward and backward graph.
#pragma once

#include "graph/graph.h"

namespace crossbow {

/// Appends the nodes that compute d(loss)/d(parameter) for every parameter the loss depends on, but
/// for frozen ones, and names each result "gradient:<parameter name>". `loss` is a scalar. Throws
/// Error naming the op where a path from a parameter to the loss crosses one that has no gradient.
void differentiate(Graph& graph, Value loss);

/// What training minimises: the graph's output "objective" or, where there is none, "loss".
Value objective(const Graph& graph);

}  // namespace crossbow
