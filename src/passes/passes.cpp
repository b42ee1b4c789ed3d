#include "passes/passes.h"

#include "graph/op.h"
#include "graph/source.h"
#include "ops/batch_norm.h"
#include "ops/sparse_rows.h"
#include "passes/rewrite.h"

namespace crossbow {

Graph remove_dead(const Graph& graph) {
  std::vector<bool> live(graph.nodes().size());
  for (const auto& [name, v] : graph.outputs()) live[v.node] = true;
  for (size_t i = live.size(); i-- > 0;) {
    const Node& node = graph.nodes()[i];
    live[i] = live[i] || node.op->name == "parameter" || node.op->name == "state" ||
              node.op->name == "input";  // what all programs of a net share
    if (!live[i]) continue;
    for (Value v : node.inputs) {
      if (v) live[v.node] = true;
    }
  }
  return rewrite(graph, [&](Rewriter& r, int32_t id) {
    if (live[id]) r.copy(id);
  });
}

Graph with_batch(const Graph& graph, int64_t batch) {
  return rewrite(graph, [&](Rewriter& r, int32_t id) {
    const Node& node = graph.nodes()[id];
    r.copy(id, is_sparse_rows(node) ? sparse_rows_with_batch(node, batch)
                                    : source_attributes_with_batch(node, batch));
  });
}

Graph for_statistics(const Graph& graph) {
  return remove_dead(rewrite(graph, [&](Rewriter& r, int32_t id) {
    const Node& node = graph.nodes()[id];
    std::shared_ptr<BatchNormAttributes> attributes;
    if (node.op->name == "batch_norm") {
      attributes = std::make_shared<BatchNormAttributes>(node.attrs<BatchNormAttributes>());
      attributes->momentum = 0;
    }
    r.copy(id, attributes);
  }));
}

Graph for_inference(const Graph& graph) {
  Graph result = rewrite(graph, [&](Rewriter& r, int32_t id) {
    const Node& node = graph.nodes()[id];
    if (node.op->name == "dropout" || node.op->name == "row_decay") {
      r.replace({id, 0}, r.mapped(node.inputs[0]));
    } else if (node.op->name == "batch_norm") {
      r.copy(id, by_running_statistics(node));
    } else {
      r.copy(id);
    }
  });
  if (result.outputs().contains("objective")) result.set_output("objective", result.output("loss"));
  return remove_dead(result);
}

}  // namespace crossbow
