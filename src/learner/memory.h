// What learners cost in memory.
#pragma once

#include <map>
#include <string>

namespace crossbow {

class AsyncAlgorithm;
class CompiledModel;
class Program;
class SyncAlgorithm;
struct EngineOptions;

/// In MiB. Time-sliced learners share their workers' arenas, so many of them cost little more than
/// their replicas.
struct LearnerMemory {
  int learners = 1, workers = 1, devices = 1;  // in all

  // Of the devices' memory.
  double replica = 0;    // of a learner: weights (on both sides), slots, gradient, running states
  double central = 0;    // of a device: the central model and what its algorithm keeps
  double arena = 0;      // of a worker: activations, their gradients, scratch, a batch if need be
  double frozen = 0;     // of a device: parameters and running states that nobody changes
  double evaluated = 0;  // of the first device: the copy of the central model that is evaluated and
                         // saved, and copies that it needs of what other devices have

  std::map<std::string, double> away;  // of devices where single workers' programs run, by name

  // Of the host's.
  double bound = 0;    // in all: programs bound to replicas and arenas
  double batches = 0;  // in all: buffers of batches
  double saved = 0;    // what a copy of the whole state takes, while there is one

  /// Everything but `saved`.
  double total_mb() const {
    return learners * replica + workers * arena + devices * (central + frozen) + evaluated +
           host_mb();
  }
  double host_mb() const { return bound + batches; }
  double device_mb(int device) const {
    return (learners * replica + workers * arena) / devices + central + frozen +
           (device == 0 ? evaluated : 0);
  }
};

/// What an engine with these options will allocate, beside threads and kernels. `model` must have
/// been asked for the programs that will run; `sync` may be null.
LearnerMemory memory_of(CompiledModel& model, const SyncAlgorithm* sync,
                        const EngineOptions& options);
/// The same of asynchronous nodes.
LearnerMemory memory_of(CompiledModel& model, const AsyncAlgorithm& async,
                        const EngineOptions& options);

/// Estimated memory of one bound execution of the program, in MiB.
double execution_mb(const Program& program);

}  // namespace crossbow
