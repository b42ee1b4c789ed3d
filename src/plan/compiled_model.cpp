#include "plan/compiled_model.h"

#include <algorithm>

#include "passes/autodiff.h"
#include "passes/passes.h"

namespace crossbow {

Graph training_graph(const Graph& forward, int64_t rows) {
  Graph graph = with_batch(forward, rows);
  differentiate(graph, objective(graph));
  return remove_dead(graph);
}

CompiledModel::CompiledModel(const Graph& forward, const CompileOptions& options)
    : forward_(fuse(forward)), options_(options) {}

std::shared_ptr<const Program> CompiledModel::training(int64_t rows) {
  if (const auto known = training_.find(rows); known != training_.end()) return known->second;
  return training_[rows] = compile(training_graph(forward_, rows));
}

std::shared_ptr<const Program> CompiledModel::evaluation(int64_t rows) {
  if (const auto known = evaluation_.find(rows); known != evaluation_.end()) return known->second;
  return evaluation_[rows] = compile(remove_dead(for_inference(with_batch(forward_, rows))));
}

std::shared_ptr<const Program> CompiledModel::statistics(int64_t rows) {
  if (const auto known = statistics_.find(rows); known != statistics_.end()) return known->second;
  return statistics_[rows] = compile(for_statistics(with_batch(forward_, rows)));
}

std::shared_ptr<const Program> CompiledModel::compile(const Graph& graph) {
  auto program = Program::compile(graph, options_);
  options_.parameters = program->parameters();
  return program;
}

FieldBytes CompiledModel::largest_inputs() const {
  FieldBytes inputs{};
  for_each_program([&](const Program& program) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      inputs[i] = std::max(inputs[i], program.input_bytes()[i]);
    }
  });
  return inputs;
}

Workspace CompiledModel::make_workspace(Device& device) const {
  return {device, arena_bytes(), largest_inputs()};
}

size_t CompiledModel::workspace_bytes(const Device& device) const {
  return Workspace::bytes(device, arena_bytes(), largest_inputs());
}

size_t CompiledModel::arena_bytes() const {
  size_t bytes = 0;
  for_each_program([&](const Program& p) { bytes = std::max(bytes, p.arena_bytes()); });
  return bytes;
}

}  // namespace crossbow
