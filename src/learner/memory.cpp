#include "learner/memory.h"

#include "core/text.h"
#include "learner/engine.h"
#include "learner/noise_probe.h"
#include "learner/scheduler.h"
#include "sync/sync.h"

namespace crossbow {

double execution_mb(const Program& program) {
  constexpr double kBytesOfACall = 1900;  // measured: of oneDNN's argument lists above all
  return mebibytes(static_cast<double>(program.kernel_infos().size()) * kBytesOfACall);
}

namespace {

/// Executions of each training program, of all learners.
int64_t executions(const EngineOptions& options, bool overlaps, bool stays) {
  const Scheduler scheduler(options.threads.devices, options.learners, options.threads.workers);
  int64_t pairs = 0;
  for (int j = 0; j < options.threads.devices * options.learners; ++j) {
    for (int w = 0; w < options.threads.all_workers(); ++w) pairs += scheduler.may_run(w, j);
  }
  return pairs * (overlaps ? (stays ? 4 : 2) : 1);
}

}  // namespace

LearnerMemory memory_of(CompiledModel& model, const SyncAlgorithm* sync,
                        const EngineOptions& options) {
  const ParameterLayout& layout = *model.parameters();
  const auto element = static_cast<double>(size_of(layout.dtype));
  const double flat = mebibytes(static_cast<double>(layout.parameter_elements) * element);
  const double states = mebibytes(static_cast<double>(layout.state_elements) * element);
  const SyncAlgorithm::Traits traits = sync ? sync->traits() : SyncAlgorithm::Traits{};
  const bool shared = traits.averages_gradients;
  const bool splits = options.batch.splits > 1;
  const bool gradients = !model.options().update;
  const Device& device = find_device(model.options().device);
  const bool apart = !device.is_host();

  LearnerMemory m;
  m.devices = options.threads.devices;
  m.learners = m.devices * options.learners;
  m.workers = options.threads.all_workers();
  const auto slots = static_cast<int>(options.optimizer.slots.size());
  const int vectors =
      (shared ? 0 : (traits.overlaps ? 2 : 1) + slots) + (gradients ? 1 : 0) + (splits ? 1 : 0);
  const int state_buffers = traits.state_buffers + (shared ? slots : 0);
  m.replica = vectors * flat + states;
  const bool probes = sync && NoiseProbe::can_measure(*sync, options.optimizer, options.learners);
  const int kept = probes && options.learners == 1 ? 1 : 0;  // by the probe
  if (sync) {
    const bool mean = (shared && options.clip_norm > 0) || m.devices > 1 || apart;
    m.central = flat * ((traits.overlaps ? 2 : 1) + state_buffers + kept + (mean ? 1 : 0));
  }
  m.evaluated = flat + states;
  const bool stays = traits.overlaps && sync->may_stay();
  const auto times = static_cast<double>(executions(options, traits.overlaps, stays));
  for (const int64_t rows : options.batch.program_rows()) {
    m.bound += times * execution_mb(*model.training(rows));
  }
  const int own = shared ? 0 : 1 + slots;
  m.saved = m.evaluated + m.learners * (own * flat + states) +
            flat * ((traits.overlaps ? 1 : 0) + state_buffers + kept);
  if (apart && m.devices > 1) m.evaluated += flat + (m.learners - options.learners) * states;
  m.arena = mebibytes(static_cast<double>(model.workspace_bytes(device)));
  return m;
}

}  // namespace crossbow
