#include "plan/compiled_model.h"

#include <algorithm>

#include "passes/autodiff.h"
#include "passes/passes.h"

namespace crossbow {

Graph training_graph(const Graph& forward, int64_t rows) {
  Graph graph = with_batch(forward, rows);
  differentiate(graph, graph.output("loss"));
  return remove_dead(graph);
}

CompiledModel::CompiledModel(const Graph& forward, const CompileOptions& options)
    : forward_(fuse(forward)), options_(options) {}

std::shared_ptr<const Program> CompiledModel::training(int64_t rows) {
  auto& program = training_[rows];
  if (!program) program = compile(training_graph(forward_, rows));
  return program;
}

std::shared_ptr<const Program> CompiledModel::evaluation(int64_t rows) {
  auto& program = evaluation_[rows];
  if (!program) program = compile(remove_dead(for_inference(with_batch(forward_, rows))));
  return program;
}

std::shared_ptr<const Program> CompiledModel::statistics(int64_t rows) {
  auto& program = statistics_[rows];
  if (!program) program = compile(for_statistics(with_batch(forward_, rows)));
  return program;
}

std::shared_ptr<const Program> CompiledModel::compile(const Graph& graph) {
  auto program = Program::compile(graph, options_);
  options_.parameters = program->parameters();
  return program;
}

size_t CompiledModel::arena_bytes() const {
  size_t bytes = 0;
  for (const auto* programs : {&training_, &evaluation_, &statistics_}) {
    for (const auto& [rows, program] : *programs) bytes = std::max(bytes, program->arena_bytes());
  }
  return bytes;
}

}  // namespace crossbow
