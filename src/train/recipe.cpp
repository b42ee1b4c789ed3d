#include "train/recipe.h"

#include "data/dataset.h"
#include "train/schedule.h"

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
  fill(o.epochs, recipe.epochs);
  fill(o.lr, recipe.lr);
  fill(o.lr_schedule, recipe.lr_schedule);
  if (drops_the_rate(*o.lr_schedule)) {
    if (*o.lr_schedule == recipe.lr_schedule) fill(o.lr_milestones, recipe.lr_milestones);
    fill(o.lr_gamma, recipe.lr_gamma);
  }
  fill(o.warmup, recipe.warmup);
  fill(o.momentum, recipe.momentum);
  fill(o.weight_decay, recipe.weight_decay);
  return o;
}

ModelSpec spec_of(const TrainOptions& options) {
  const Model& model = find_model(options.model);
  if (!options.data) return {model.default_image, model.default_classes, options.batch, {}};
  const data::CatalogueEntry& entry = data::catalogue_entry(*options.data);
  if (entry.image.rank() > 0) return {entry.image, entry.classes, options.batch, {}};
  data::OpenOptions open;
  open.image_size = {options.image_size, options.image_size};
  open.memory_budget = 1;  // only its shape is wanted: keep no pictures
  const auto dataset = data::open_dataset(*options.data, open);
  return {dataset->info.image, dataset->info.classes, options.batch, {}};
}

}  // namespace crossbow
