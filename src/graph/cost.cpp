#include "graph/cost.h"

#include "graph/op.h"

namespace crossbow {

int64_t parameter_count(const Graph& graph) {
  int64_t count = 0;
  for (const int32_t id : graph.find("parameter")) {
    count += graph.nodes()[id].outputs[0].shape.elements();
  }
  return count;
}

double flop_count(const Graph& graph) {
  double flops = 0;
  for (const Node& node : graph.nodes()) {
    if (node.op->flops) flops += node.op->flops(node, graph.input_types(node));
  }
  return flops;
}

}  // namespace crossbow
