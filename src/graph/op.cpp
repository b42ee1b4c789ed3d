#include "graph/op.h"

#include "core/error.h"
#include "core/registry.h"
#include "graph/source.h"

namespace crossbow {
namespace {

Registry<Op>& op_registry() {
  static Registry<Op> ops("op");
  return ops;
}

}  // namespace

const Op& register_op(Op op) {
  const std::string_view name = op.name;
  return op_registry().add(name, std::move(op));
}

const Op& find_op(std::string_view name) {
  const Op* const op = op_registry().find(name);
  if (!op) fail("there is no op '{}'", name);
  return *op;
}

std::vector<const Op*> all_ops() {
  std::vector<const Op*> ops;
  for (const auto& [name, op] : op_registry()) ops.push_back(&op);
  return ops;
}

GradientContext::GradientContext(Graph& graph, int32_t node, std::vector<Value> output_gradients,
                                 std::vector<bool> wanted)
    : graph_(graph),
      id_(node),
      node_(graph.nodes()[node]),
      output_gradients_(std::move(output_gradients)),
      input_gradients_(node_.inputs.size()),
      wanted_(std::move(wanted)) {}

Tensor CaseBuilder::input(Shape shape, float low, float high) {
  return parameter(graph_, shape, Initialiser::uniform(low, high), "x");
}

Tensor CaseBuilder::labels(int64_t n, int64_t) {
  return crossbow::input(graph_, {n}, 1, DType::i32, "labels");
}

Tensor CaseBuilder::targets(Shape shape) {
  return crossbow::input(graph_, shape, 1, DType::f32, "targets");
}

Tensor CaseBuilder::state(Shape shape, float value) {
  return crossbow::state(graph_, shape, value, "state");
}

}  // namespace crossbow
