#include "train/setup.h"

#include <algorithm>

#include "core/error.h"
#include "core/machine.h"
#include "device/device.h"
#include "kernels/precision.h"

namespace crossbow {

DeviceList device_list(std::string_view text) {
  const std::string kind(text.substr(0, text.find(':')));
  if (kind == text || !is_device(kind)) return {std::string(text), 1};
  std::string counted = kind + ":0";
  for (int count = 1; counted.size() <= text.size(); ++count) {
    if (counted == text) return {kind, count};
    counted += fmt::format(",{}:{}", kind, count);
  }
  fail_usage("`device` {}: count the devices: {}:0,{}:1 for two", text, kind, kind);
}

namespace {

/// Whether the algorithm takes the options with so many learners.
bool accepts(const TrainOptions& options, const Arrangement& arrangement) {
  try {
    sync_of(options, arrangement);
    return true;
  } catch (const UsageError&) {
    return false;
  }
}

}  // namespace

std::vector<Arrangement> candidates(const TrainOptions& o, int64_t most) {
  const int cores = std::max(1, physical_cores() / device_list(o.device).count);
  std::optional<int> threads, learners;
  if (o.threads_per_learner) threads = static_cast<int>(*o.threads_per_learner);
  if (o.learners) learners = static_cast<int>(*o.learners);
  if (o.sync == "none") learners = 1;
  if (!learners && o.deterministic) {
    learners = std::clamp<int64_t>(cores / threads.value_or(1), 1, std::max<int64_t>(1, most));
  }
  if (learners) return {{*learners, threads.value_or(std::max(1, cores / *learners))}};
  auto all = arrangements(cores, threads);
  const auto end =
      std::find_if(all.begin(), all.end(), [&](const Arrangement& a) { return !accepts(o, a); });
  all.erase(std::max(end, all.begin() + 1), all.end());
  while (all.size() > 1 && all.back().learners > most) all.pop_back();
  return all;
}

data::PipelineOptions augmented(const TrainOptions& options) {
  data::PipelineOptions p;
  p.shuffle = true;
  p.augment.pad = static_cast<int>(*options.pad);
  p.augment.mirror = *options.mirror;
  p.seed = options.seed;
  return p;
}

data::PipelineOptions training_pipeline(const TrainOptions& options,
                                        const Arrangement& arrangement) {
  data::PipelineOptions p = augmented(options);
  p.batch = options.batch;
  // A learner that exchanges every time may be two iterations ahead of another, whose batch keeps
  // its buffer. With a longer period the buffers are the limit.
  p.least_depth = 4 * device_list(options.device).count * arrangement.learners;
  return p;
}

ThreadPlan thread_plan(const TrainOptions& options, const Arrangement& arrangement) {
  return plan_threads(device_list(options.device).count, arrangement.learners, arrangement.threads);
}

namespace {

DType precision_of(const TrainOptions& options) {
  return options.precision == "bf16" ? DType::bf16 : DType::f32;
}

}  // namespace

std::string used_precision(const TrainOptions& o) {
  const DType used = computed_precision(device_list(o.device).kind, precision_of(o));
  return used == precision_of(o) ? o.precision : "f32";
}

Loss loss_of(const TrainOptions& options) {
  if (options.loss == "sigmoid") return BCEWithLogitsLoss{};
  if (options.loss == "mse") return MSELoss{};
  return CrossEntropyLoss{.label_smoothing =
                              static_cast<float>(options.label_smoothing.value_or(0))};
}

std::optional<std::string> precision_note(const TrainOptions& options) {
  if (used_precision(options) == options.precision) return {};
  return "`precision` bf16: this processor has no instructions for it (AVX-512), so all is "
         "computed in f32";
}

Optimizer optimizer_of(const TrainOptions& o) {
  return make_sgd({o.momentum.value_or(0), o.weight_decay.value_or(0), o.nesterov.value_or(false)});
}

CompileOptions compile_options(const TrainOptions& options, const Arrangement& arrangement,
                               AlgorithmChooser* chooser) {
  const auto sync = sync_of(options, arrangement);
  CompileOptions compile;
  compile.device = device_list(options.device).kind;
  compile.precision = precision_of(options);
  compile.threads = arrangement.threads;
  const bool whole_gradient_first =
      options.clip_norm || options.splits > 1 || (sync && sync->traits().averages_gradients);
  if (!whole_gradient_first) compile.update = optimizer_of(options);
  compile.chooser = options.deterministic ? nullptr : chooser;
  return compile;
}

EngineOptions engine_options(const TrainOptions& options, const Arrangement& arrangement,
                             const BatchShape& batch) {
  EngineOptions e;
  e.learners = arrangement.learners;
  e.threads = thread_plan(options, arrangement);
  e.batch = batch;
  e.optimizer = optimizer_of(options);
  e.clip_norm = options.clip_norm.value_or(0);
  e.seed = options.seed;
  return e;
}

int64_t bn_images(const TrainOptions& o, const SyncAlgorithm* sync, bool states) {
  constexpr int64_t kImages = 2048;
  if (o.bn_images.value_or(0) > 0 && !states) {
    fail_usage("`bn-images` {}: the net has no batch norm; leave it out", *o.bn_images);
  }
  const bool lags = sync && sync->traits().lags;
  return o.bn_images.value_or(lags && states ? kImages : 0);
}

std::unique_ptr<const SyncAlgorithm> sync_of(const TrainOptions& o, int learners) {
  if (o.sync == "none") return nullptr;
  SyncOptions options;
  options.learners = learners;
  options.period = o.sync_period;
  options.alpha = o.alpha;
  options.central_momentum = o.central_momentum;
  options.averaging_eta = o.averaging_eta;
  options.momentum = o.momentum.value_or(0);
  options.nesterov = o.nesterov.value_or(false);
  auto sync = make_sync(o.sync, options);
  if (learners == 1 && sync->traits().alone_is_sgd) return nullptr;
  return sync;
}

}  // namespace crossbow
