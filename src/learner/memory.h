// What learners cost in memory.
#pragma once

namespace crossbow {

class CompiledModel;
class SyncAlgorithm;
struct EngineOptions;

/// In MiB. Time-sliced learners share their workers' arenas, so many of them cost little more than
/// their replicas.
struct LearnerMemory {
  int learners = 1, workers = 1, devices = 1;  // in all
  double replica = 0;  // of a learner: weights (on both sides), momentum, gradient, running states
  double central = 0;  // of a device: the central model and what its algorithm keeps
  double arena = 0;    // of a worker: activations, their gradients, scratch
  double evaluated = 0;  // the copy of the central model that is evaluated and saved

  double total_mb() const {
    return learners * replica + workers * arena + devices * central + evaluated;
  }
};

/// What an engine with these options will allocate, beside threads and kernels. `sync` may be null.
LearnerMemory memory_of(const CompiledModel& model, const SyncAlgorithm* sync,
                        const EngineOptions& options);

}  // namespace crossbow
