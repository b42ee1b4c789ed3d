#include "train/recipe.h"

#include <algorithm>

#include "core/machine.h"
#include "data/dataset.h"

namespace crossbow {
namespace {

template <typename T, typename U>
void fill(std::optional<T>& option, const U& value) {
  if (!option) option = static_cast<T>(value);
}

}  // namespace

TrainOptions with_recipe(TrainOptions o, const Recipe& recipe) {
  fill(o.data, recipe.data.empty() ? "digits" : recipe.data);
  fill(o.pad, recipe.pad);
  fill(o.mirror, recipe.mirror);
  fill(o.learners, o.sync == "none" ? 1 : physical_cores());
  fill(o.threads_per_learner,
       std::max<int64_t>(1, physical_cores() / std::max<int64_t>(1, *o.learners)));
  fill(o.epochs, recipe.epochs);
  fill(o.lr, recipe.lr);
  fill(o.lr_schedule, recipe.lr_schedule);
  if (*o.lr_schedule == "step" || *o.lr_schedule == "multistep") {
    if (*o.lr_schedule == recipe.lr_schedule) fill(o.lr_milestones, recipe.lr_milestones);
    fill(o.lr_gamma, recipe.lr_gamma);
  }
  fill(o.warmup, recipe.warmup);
  fill(o.momentum, recipe.momentum);
  fill(o.weight_decay, recipe.weight_decay);
  return o;
}

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

Sgd sgd_of(const TrainOptions& options) {
  return {*options.momentum, *options.weight_decay, options.nesterov,
          options.clip_norm.value_or(0)};
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

ModelSpec spec_of(const TrainOptions& options) {
  const Model& model = find_model(options.model);
  if (!options.data) return {model.default_image, model.default_classes, options.batch, {}};
  for (const data::CatalogueEntry& entry : data::catalogue()) {
    const bool named = options.data->substr(0, options.data->find(':')) == entry.name;
    if (named && entry.image.rank() > 0) return {entry.image, entry.classes, options.batch, {}};
  }
  data::OpenOptions open;
  open.image_size = options.image_size;
  open.memory_budget = 1;  // only its shape is wanted: keep no pictures
  const auto dataset = data::open_dataset(*options.data, open);
  return {dataset->info.image, dataset->info.classes, options.batch, {}};
}

}  // namespace crossbow
