#include "learner/memory.h"

#include "core/text.h"
#include "learner/engine.h"
#include "learner/nodes.h"
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
int64_t executions(const EngineOptions& options, bool two_sides, bool stays) {
  const Scheduler scheduler(options.threads.devices, options.learners, options.threads.workers);
  int64_t pairs = 0;
  for (int j = 0; j < options.threads.devices * options.learners; ++j) {
    for (int w = 0; w < options.threads.all_workers(); ++w) pairs += scheduler.may_run(w, j);
  }
  return pairs * (two_sides ? (stays ? 4 : 2) : 1);
}

/// What a device with memory of its own hands out beyond what so many buffers hold: whole pages.
double pages(int buffers) {
  constexpr double kPage = 4096;
  return mebibytes(buffers * kPage);
}
constexpr int kOfALearner = 2, kOfExchanges = 32;  // buffers of a few numbers

/// Of a net's flat buffers, in MiB.
struct Sizes {
  explicit Sizes(const ParameterLayout& layout)
      : flat(mebibytes(static_cast<double>(layout.parameter_elements) *
                       static_cast<double>(size_of(layout.dtype)))),
        states(mebibytes(static_cast<double>(layout.state_elements) *
                         static_cast<double>(size_of(layout.dtype)))),
        frozen(mebibytes(static_cast<double>(layout.frozen_elements) *
                         static_cast<double>(size_of(layout.dtype)))) {}
  const double flat, states, frozen;
};

/// What any engine takes; `times`: executions of each training program, of all learners.
LearnerMemory common_memory(CompiledModel& model, const EngineOptions& options, int64_t times) {
  const Sizes sizes(*model.parameters());
  LearnerMemory m;
  m.devices = options.threads.devices;
  m.learners = m.devices * options.learners;
  m.workers = options.threads.all_workers();
  m.arena =
      mebibytes(static_cast<double>(model.workspace_bytes(find_device(model.options().device))));
  m.evaluated = sizes.flat + sizes.states;
  m.frozen = sizes.frozen;
  for (const int64_t rows : options.batch.program_rows()) {
    m.bound += static_cast<double>(times) * execution_mb(*model.training(rows));
  }
  return m;
}

}  // namespace

LearnerMemory memory_of(CompiledModel& model, const SyncAlgorithm* sync,
                        const EngineOptions& options) {
  const auto [flat, states, frozen] = Sizes(*model.parameters());
  const SyncAlgorithm::Traits traits = sync ? sync->traits() : SyncAlgorithm::Traits{};
  const bool shared = traits.averages_gradients;
  const bool splits = options.batch.splits > 1;
  const bool gradients = !model.options().update;
  const Device& device = find_device(model.options().device);
  const bool apart = !device.is_host();
  const bool two_sides = traits.timing == SyncAlgorithm::Timing::beside_step;
  const bool stays = two_sides && sync->may_stay();

  LearnerMemory m = common_memory(model, options, executions(options, two_sides, stays));
  const auto slots = static_cast<int>(options.optimizer.slots.size());
  const int vectors =
      (shared ? 0 : (two_sides ? 2 : 1) + slots) + (gradients ? 1 : 0) + (splits ? 1 : 0);
  const int state_buffers = traits.state_buffers + (shared ? slots : 0);
  m.replica = vectors * flat + states + (apart ? pages(vectors + kOfALearner) : 0);
  const bool probes = sync && NoiseProbe::can_measure(*sync, options.optimizer, options.learners);
  const int kept = probes && options.learners == 1 ? 1 : 0;  // by the probe
  if (sync) {
    const bool mean = (shared && options.clip_norm > 0) || m.devices > 1 ||
                      traits.timing == SyncAlgorithm::Timing::beside_passes ||
                      device.exchanges_whole();
    const int exchanged = options.world ? 2 : mean ? 1 : 0;  // with ranks, and what they send
    m.central = flat * ((two_sides ? 2 : 1) + state_buffers + kept + exchanged);
  }
  if (apart) m.central += pages(kOfExchanges);
  const int own = shared ? 0 : 1 + slots;
  m.saved = m.evaluated + frozen + m.learners * (own * flat + states) +
            flat * ((two_sides ? 1 : 0) + state_buffers + kept);
  if (apart && m.devices > 1) m.evaluated += flat + (m.learners - options.learners) * states;
  return m;
}

LearnerMemory memory_of(CompiledModel& model, const AsyncAlgorithm& async,
                        const EngineOptions& options) {
  const auto [flat, states, frozen] = Sizes(*model.parameters());
  const AsyncAlgorithm::Traits traits = async.traits();
  LearnerMemory m =
      common_memory(model, options, int64_t{options.learners} * options.threads.all_workers());
  if (model.options().update) {  // of live weights
    m.replica = flat + states;
    m.central = flat;
    m.saved = m.evaluated + frozen + m.learners * m.replica + m.central;
    return m;
  }
  const auto own = 1 + static_cast<int>(options.optimizer.slots.size());  // weights and slots
  const bool reads_snapshot = traits.live || traits.pairs;
  const bool by_mail = traits.inbox && options.pace && options.pace->network;
  const int letters = by_mail ? static_cast<int>(NodeNumbers::kMostLetters) : 0;
  const int rooms = !options.world ? 0
                    : traits.inbox ? Nodes::kRoomsForLetters
                                   : Nodes::kRoomsToAsk;
  const int vectors = (traits.live ? 0 : own) + (reads_snapshot ? 1 : 0) +
                      (traits.own_buffer ? 1 : 0) + (traits.inbox ? 1 : 0) + letters + rooms;
  const int gradients = options.batch.splits > 1 ? 2 : 1;
  m.replica = (vectors + gradients) * flat + states;
  const int received = options.world ? Mail::kReceiving + 1 : 0;  // and a share of a sum
  m.central = ((traits.server ? 1 : 0) + (traits.live ? own : 0) + received) * flat;
  m.saved = m.evaluated + frozen + m.learners * (m.replica - (gradients - 1) * flat) + m.central;
  if (find_device(model.options().device).exchanges_whole()) {
    m.replica += Nodes::vectors_to_mix(traits) * flat;
  }
  return m;
}

}  // namespace crossbow
