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
  bool apart = false;  // the devices have memory of their own, which the host cannot use

  // In the devices' memory.
  double replica = 0;  // of a learner: weights (on both sides), slots, gradient, running states
  double central = 0;  // of a device: the central model and what its algorithm keeps
  double arena = 0;    // of a worker: activations, their gradients, scratch; the batch, if apart
  double evaluated = 0;  // of the first: the copy of the central model that is evaluated and saved
  double gathered = 0;   // of the first: copies of what others have, if apart

  // In the host's, of all devices.
  double bound = 0;    // programs bound to replicas and arenas
  double batches = 0;  // buffers of batches
  double saved = 0;    // what a copy of the whole state takes, while there is one
  double staged = 0;   // what is copied at a time to save or restore the state, if apart

  /// Without what is only there at times: `saved` and `staged`.
  double total_mb() const { return devices_mb() + bound + batches; }
  double host_mb() const { return apart ? bound + batches : total_mb(); }
  double device_mb(int device) const {
    return (learners * replica + workers * arena) / devices + central +
           (device == 0 ? evaluated + gathered : 0);
  }

 private:
  double devices_mb() const {
    return learners * replica + workers * arena + devices * central + evaluated + gathered;
  }
};

/// What an engine with these options will allocate, beside threads, kernels and a few words a
/// learner. `model` must have
/// been asked for the programs that will run; `sync` may be null.
LearnerMemory memory_of(CompiledModel& model, const SyncAlgorithm* sync,
                        const EngineOptions& options);

/// Estimated memory of one bound execution of the program, in MiB.
double execution_mb(const Program& program);

}  // namespace crossbow
