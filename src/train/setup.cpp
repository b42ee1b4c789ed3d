#include "train/setup.h"

#include <algorithm>

#include "core/machine.h"

namespace crossbow {

CompileOptions compile_options(const TrainOptions& options, AlgorithmChooser* chooser) {
  const auto sync = sync_of(options);
  CompileOptions compile;
  compile.device = options.device;
  compile.precision = options.precision == "bf16" ? DType::bf16 : DType::f32;
  compile.threads = static_cast<int>(*options.threads_per_learner);
  compile.update = !options.clip_norm && !(sync && sync->traits().averages_gradients);
  compile.chooser = options.deterministic ? nullptr : chooser;
  return compile;
}

EngineOptions engine_options(const TrainOptions& options, int64_t last_rows) {
  EngineOptions e;
  e.learners = static_cast<int>(*options.learners);
  e.workers = worker_count(options);
  e.rows = options.batch;
  e.last_rows = last_rows;
  e.sgd = {*options.momentum, *options.weight_decay, options.nesterov,
           options.clip_norm.value_or(0)};
  e.seed = options.seed;
  return e;
}

int worker_count(const TrainOptions& options) {
  return std::max(1, physical_cores() / static_cast<int>(*options.threads_per_learner));
}

SyncOptions sync_options(const TrainOptions& o) {
  SyncOptions sync;
  sync.learners = o.learners.value_or(1);
  sync.period = o.sync_period;
  sync.alpha = o.alpha;
  sync.central_momentum = o.central_momentum;
  sync.momentum = o.momentum.value_or(0);
  sync.weight_decay = o.weight_decay.value_or(0);
  sync.nesterov = o.nesterov;
  return sync;
}

std::unique_ptr<const SyncAlgorithm> sync_of(const TrainOptions& options) {
  if (options.sync == "none") return nullptr;
  auto sync = make_sync(options.sync, sync_options(options));
  if (*options.learners == 1 && sync->traits().alone_is_sgd) return nullptr;
  return sync;
}

}  // namespace crossbow
