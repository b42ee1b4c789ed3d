// Rewrites of a forward graph before it is differentiated. Each takes a graph and returns a better
// one that computes the same named outputs; parameters keep their names and order.
#pragma once

#include <string>

#include "graph/graph.h"

namespace crossbow {

/// Bias into convolution and dense, activation into dense, batch norm + add + ReLU, add + ReLU:
/// wherever the intermediate value has no other use.
Graph fuse(const Graph& graph);
/// The op's name and, after it, what fuse() has added to the node: "batch_norm + add + relu".
std::string fused_name(const Node& node);
/// The graph that evaluation runs: dropout and auxiliary heads are gone, batch norm reads its
/// running statistics.
Graph for_inference(const Graph& graph);
/// The forward part of training as it measures a batch: the running statistics that batch norm
/// leaves are the batch's own.
Graph for_statistics(const Graph& graph);
/// The same net for another number of rows.
Graph with_batch(const Graph& graph, int64_t batch);
/// Drops nodes that no named output needs. Parameters, states and inputs stay.
Graph remove_dead(const Graph& graph);

}  // namespace crossbow
