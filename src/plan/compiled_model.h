// A net ready to run: its programs for training and evaluation, whole and last batches.
#pragma once

#include <map>

#include "graph/graph.h"
#include "plan/program.h"

namespace crossbow {

/// Compiles one graph for different uses and numbers of rows, on demand, and keeps the programs.
/// All share the parameter layout, which the first one decides; they run one at a time, so they can
/// share an arena too. One thread at a time.
class CompiledModel {
 public:
  CompiledModel(const Graph& forward, const CompileOptions& options);

  std::shared_ptr<const Program> training(int64_t rows);
  std::shared_ptr<const Program> evaluation(int64_t rows);
  /// Leaves the statistics of its batch in the replica's states, and all else as it was.
  std::shared_ptr<const Program> statistics(int64_t rows);

  const CompileOptions& options() const { return options_; }
  /// Null until something is compiled.
  std::shared_ptr<const ParameterLayout> parameters() const { return options_.parameters; }
  /// For the programs compiled so far, on a device of the model's kind.
  Workspace make_workspace(Device& device) const;
  size_t arena_bytes() const;
  /// What such a workspace takes of the device's memory.
  size_t workspace_bytes(const Device& device) const;

 private:
  std::shared_ptr<const Program> compile(const Graph& graph);
  FieldBytes largest_inputs() const;
  template <typename F>
  void for_each_program(const F& f) const {
    for (const auto* programs : {&training_, &evaluation_, &statistics_}) {
      for (const auto& [rows, program] : *programs) f(*program);
    }
  }

  const Graph forward_;  // fused
  CompileOptions options_;
  std::map<int64_t, std::shared_ptr<const Program>> training_, evaluation_, statistics_;
};

/// The joint forward and backward graph that one training step runs.
Graph training_graph(const Graph& forward, int64_t rows);

}  // namespace crossbow
