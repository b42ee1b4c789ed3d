// Batch-norm statistics of a model that no learner stands at, measured on training images, as
// Izmailov et al. do for averaged weights ("Averaging Weights Leads to Wider Optima and Better
// Generalization", UAI 2018).
#pragma once

#include <algorithm>

#include "data/pipeline.h"
#include "learner/workers.h"
#include "plan/compiled_model.h"

namespace crossbow {

class World;

/// Binds a replica, workers with their workspaces on the replica's device, and a training split.
/// Ranks share out the batches, so all of them construct and call it alike. One thread.
class Statistics {
 public:
  /// Batches of so many rows for `images`, of a split of `samples`.
  static int64_t batches(int64_t samples, int64_t rows, int64_t images) {
    return std::min((images - 1) / rows + 1, samples / rows);
  }

  /// `model` must have been asked for its statistics program of `pipeline.batch` rows. `images` are
  /// rounded up to whole batches, as far as the split has them.
  Statistics(CompiledModel& model, const Replica& replica, Workers& workers,
             std::span<const Workspace> workspaces, const data::Dataset& dataset,
             const data::PipelineOptions& pipeline, int64_t images);

  /// Writes to the replica's states the means over the batches, which are the same each time. They
  /// are measured anew only if `samples`, of which the model has learned, are not those of the last
  /// call.
  void apply(Replica& replica, int64_t samples);

 private:
  /// With all other states as the replica has them.
  void measure(const Replica& replica);
  void merge(World& all);

  Device& device_;
  Workers& workers_;
  const std::span<const Workspace> workspaces_;
  const DType dtype_;
  const int64_t elements_;
  std::vector<Buffer> states_;    // by worker
  std::vector<Execution> bound_;  // by worker
  data::Pipeline pipeline_;
  const int64_t batches_;
  std::vector<Buffer> measured_;  // by batch
  Buffer mean_;
  int64_t samples_ = -1;
};

}  // namespace crossbow
