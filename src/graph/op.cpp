#include "graph/op.h"

#include <deque>
#include <map>

#include "core/error.h"
#include "graph/source.h"

namespace crossbow {
namespace {

struct Registry {
  std::deque<Op> ops;  // addresses stay valid
  std::map<std::string_view, const Op*> by_name;
};

Registry& registry() {
  static Registry r;
  return r;
}

}  // namespace

const Op& register_op(Op op) {
  Registry& r = registry();
  if (r.by_name.count(op.name)) fail("the op '{}' is registered twice", op.name);
  const Op& stored = r.ops.emplace_back(std::move(op));
  r.by_name[stored.name] = &stored;
  return stored;
}

const Op& find_op(std::string_view name) {
  const auto it = registry().by_name.find(name);
  if (it == registry().by_name.end()) fail("there is no op '{}'", name);
  return *it->second;
}

std::vector<const Op*> all_ops() {
  std::vector<const Op*> ops;
  for (const auto& [name, op] : registry().by_name) ops.push_back(op);
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
