#include "train/recipe.h"

#include <cmath>

#include "data/dataset.h"
#include "data/memory.h"
#include "sync/sync.h"
#include "train/run_data.h"
#include "train/schedule.h"
#include "train/team_config.h"
#include "train/train.h"
#include "train/workers_config.h"

namespace crossbow {
namespace {

template <typename T, typename U>
void fill(std::optional<T>& option, const U& value) {
  if (!option) option = static_cast<T>(value);
}

/// Rows of numbers may be sparse, and then momentum costs a pass over all weights in each step,
/// where a row changes some. It is not known before they are read, so none of them has momentum.
bool has_rows(const TrainOptions& o) {
  return *o.data != data::kMemory && o.model != kOwnModel && find_model(o.model).sparse_rows &&
         data::catalogue_entry(*o.data).rows;
}

/// What the options' algorithm needs of the solver, where they leave it open.
void fill_needs(TrainOptions& o, const Recipe& recipe) {
  using Momentum = SolverNeeds::Momentum;
  const SolverNeeds needs = sync_needs(o.sync);
  const bool none = needs.momentum == Momentum::any && o.momentum.value_or(0) == 0 && has_rows(o);
  if (needs.momentum == Momentum::none || none) {
    // With momentum m a gradient moves the weights by 1 + m + m² + … = 1/(1 − m) times the rate.
    // Steps without momentum learn as fast at a rate as many times as large.
    const double rate = recipe.lr / (1 - recipe.momentum);
    fill(o.lr, std::round(rate * 1e9) / 1e9);  // 0.1 rather than 0.10000000000000002
    fill(o.momentum, 0);
  }
  if (needs.momentum == Momentum::nesterov) {
    fill(o.momentum, recipe.momentum > 0 ? recipe.momentum : 0.9);
    fill(o.nesterov, true);
  }
  if (needs.rate_drops && !o.lr_schedule && !drops_the_rate(recipe.lr_schedule)) {
    // Where the CIFAR recipes of He et al. 2016 drop the rate.
    const auto epochs = static_cast<double>(*o.epochs);
    o.lr_schedule = "multistep";
    fill(o.lr_milestones, std::vector<double>{epochs / 2, epochs * 3 / 4});
  }
}

/// Whether they are cut and scaled when they are asked for, out of pictures of all sizes.
bool has_encoded_pictures(const TrainOptions& o) {
  return *o.data != data::kMemory && data::catalogue_entry(*o.data).pictures;
}

/// A resumed run keeps its size: older ones have 224, for each net, as 0.
void fill_image_size(TrainOptions& o, const Recipe& recipe) {
  if (o.image_size == 0 && !o.resume && has_encoded_pictures(o)) o.image_size = recipe.image_size;
}

void fill_crop(TrainOptions& o, const Recipe& recipe) {
  if (has_encoded_pictures(o) && !o.pad) fill(o.crop, "resized");
  const int64_t pad = o.pad.value_or(recipe.pad);
  fill(o.crop, pad > 0 ? "pad" : "none");
  fill(o.pad, *o.crop == "pad" ? pad : 0);
  if (*o.crop == "resized") fill(o.crop_area, 0.08);  // torchvision's and TensorFlow's
}

}  // namespace

TrainOptions with_recipe(TrainOptions o, const Recipe& recipe) {
  if (o.dataset) fill(o.data, data::kMemory);
  fill(o.data, recipe.data.empty() ? "digits" : recipe.data);
  fill_image_size(o, recipe);
  fill_crop(o, recipe);
  fill(o.mirror, recipe.mirror);
  fill(o.epochs, recipe.epochs);
  fill(o.loss, recipe.loss);
  fill_needs(o, recipe);
  fill_workers(o);
  fill(o.lr, recipe.lr);
  if (!is_alone(o)) fill(o.lr_scaling, sync_needs(o.sync).rate_scaling);
  if (looks_for_learners(o)) fill(o.tune_for, "goodput");
  fill(o.lr_schedule, recipe.lr_schedule);
  if (drops_the_rate(*o.lr_schedule)) {
    const bool same = *o.lr_schedule == recipe.lr_schedule;
    if (same) fill(o.lr_milestones, recipe.lr_milestones);
    fill(o.lr_gamma, same ? recipe.lr_gamma : Recipe{}.lr_gamma);
  }
  fill(o.warmup, recipe.warmup);
  fill(o.momentum, recipe.momentum);
  fill(o.nesterov, false);
  fill(o.weight_decay, recipe.weight_decay);
  return o;
}

bool has_pictures(const TrainOptions& o) {
  return o.data && o.data != data::kMemory && data::catalogue_entry(*o.data).has_pictures();
}

ModelSpec spec_of(const data::Info& info, int64_t batch, const Loss& loss) {
  return {
      .image = info.image,
      .classes = info.classes,
      .batch = batch,
      .options = {},
      .loss = loss,
      .label = info.label,
      .room = info.room,
      .groups = info.groups,
      .pixels = info.sample_type == DType::u8 ? std::optional(info.normalisation) : std::nullopt};
}

ModelSpec spec_of(const TrainOptions& asked, const RunConfig& config) {
  if (!asked.data) {
    ModelSpec spec = find_model(config.model).default_spec(config.batch);
    spec.loss = config.loss;
    if (spec.image.rank() == 3) {
      if (asked.image_size > 0) spec.image[1] = spec.image[2] = asked.image_size;
      spec.pixels = config.normalisation.value_or(Normalisation{});
    }
    return spec;
  }
  const data::CatalogueEntry& entry = data::catalogue_entry(config.data);
  if (entry.image.rank() > 0 && !entry.rows) {
    return {.image = entry.image,
            .classes = entry.classes,
            .batch = config.batch,
            .options = {},
            .loss = config.loss,
            .pixels = config.normalisation.value_or(Normalisation{})};
  }
  data::OpenOptions open;
  open.image_size = {config.options.image_size, config.options.image_size};
  open.memory_budget = 1;  // only its shape is wanted: keep no pictures
  const auto dataset = for_net(config, data::open_dataset(config.data, open), nullptr);
  return spec_of(dataset->info, config.batch, config.loss);
}

}  // namespace crossbow
