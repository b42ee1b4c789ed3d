#include "learner/memory.h"

#include "core/text.h"
#include "learner/engine.h"

namespace crossbow {

LearnerMemory memory_of(const CompiledModel& model, const SyncAlgorithm* sync,
                        const EngineOptions& options) {
  const ParameterLayout& layout = *model.parameters();
  const auto element = static_cast<double>(size_of(layout.dtype));
  const double flat = mebibytes(static_cast<double>(layout.parameter_elements) * element);
  const double states = mebibytes(static_cast<double>(layout.state_elements) * element);
  const SyncAlgorithm::Traits traits = sync ? sync->traits() : SyncAlgorithm::Traits{};
  const bool shared = traits.averages_gradients;
  const bool splits = options.batch.splits > 1;
  const bool gradients = !model.options().update;

  LearnerMemory m;
  m.devices = options.threads.devices;
  m.learners = m.devices * options.learners;
  m.workers = options.threads.all_workers();
  const int vectors = (shared            ? 0
                       : traits.overlaps ? 2
                                         : 1) +
                      (!shared && options.sgd.momentum > 0 ? 1 : 0) + (gradients ? 1 : 0) +
                      (splits ? 1 : 0);
  m.replica = vectors * flat + states;
  if (sync) {
    const bool mean = (shared && options.sgd.clip_norm > 0) || m.devices > 1;
    m.central = flat * ((traits.overlaps ? 2 : 1) + traits.state_buffers + (mean ? 1 : 0));
  }
  m.evaluated = flat + states;
  m.arena = mebibytes(static_cast<double>(model.arena_bytes()));
  return m;
}

}  // namespace crossbow
