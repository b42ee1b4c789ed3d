// What learners cost in memory.
#pragma once

namespace crossbow {

class CompiledModel;
class Program;
class SyncAlgorithm;
struct EngineOptions;

/// In MiB. Time-sliced learners share their workers' arenas, so many of them cost little more than
/// their replicas.
struct LearnerMemory {
  int learners = 1, workers = 1, devices = 1;  // in all
  double replica = 0;    // of a learner: weights (on both sides), slots, gradient, running states
  double central = 0;    // of a device: the central model and what its algorithm keeps
  double arena = 0;      // of a worker: activations, their gradients, scratch
  double evaluated = 0;  // the copy of the central model that is evaluated and saved
  double bound = 0;      // in all: programs bound to replicas and arenas
  double batches = 0;    // in all: buffers of batches
  double saved = 0;      // what a copy of the whole state takes, while there is one

  /// Everything but `saved`.
  double total_mb() const {
    return learners * replica + workers * arena + devices * central + evaluated + bound + batches;
  }
};

/// What an engine with these options will allocate, beside threads and kernels. `model` must have
/// been asked for the programs that will run; `sync` may be null.
LearnerMemory memory_of(CompiledModel& model, const SyncAlgorithm* sync,
                        const EngineOptions& options);

/// Estimated memory of one bound execution of the program, in MiB.
double execution_mb(const Program& program);

}  // namespace crossbow
