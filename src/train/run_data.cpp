#include "train/run_data.h"

#include <algorithm>
#include <cmath>

#include "comm/world.h"
#include "core/error.h"
#include "core/text.h"
#include "train/notes.h"
#include "train/train.h"

namespace crossbow {
namespace {

/// Of each learner, in the whole run.
int64_t steps_of(const RunConfig& config, const TeamConfig& team, int64_t batches) {
  const int64_t learners = team.learners();
  return (batches + learners - 1) / learners * config.epochs;
}

/// Whether the run ends before the first exchange that its user asked for.
bool never_exchanges(const RunConfig& config, const TeamConfig& team, int64_t batches) {
  if (config.asked_period == 0 || (!team.sync && !team.async)) return false;
  if (!team.workers.empty()) return false;  // which merge after an epoch, too
  const int64_t steps = steps_of(config, team, batches);
  const int64_t first = team.sync
                            ? team.sync->period(/*after_first_drop=*/false, steps / config.epochs)
                            : config.asked_period;
  return first > steps;
}

}  // namespace

std::shared_ptr<const data::Dataset> for_net(const RunConfig& config,
                                             std::shared_ptr<const data::Dataset> dataset,
                                             const Checkpoint* from) {
  const bool takes_rows = config.model != kOwnModel && find_model(config.model).sparse_rows &&
                          config.has_kernels("sparse_dense");
  data::Dataset own = takes_rows ? *dataset : dataset->dense();
  own.info.centre = config.centre;
  if (data::has_pixels(*own.train)) own.info.sample_type = DType::u8;
  const Shape& sample = own.info.image;
  const bool by_name = !config.options.dataset, colour = sample.rank() == 3 && sample[0] == 3;
  if (from && from->normalisation) {
    own.info.normalisation = *from->normalisation;
  } else if (config.normalisation && by_name && colour) {
    own.info.normalisation = *config.normalisation;
  }
  return std::make_shared<const data::Dataset>(std::move(own));
}

std::shared_ptr<const data::Dataset> open_data(const RunConfig& config, const Checkpoint* from,
                                               Observer& observer) {
  const auto opened = config.open_data([&](std::string_view what, int64_t done, int64_t total) {
    observer.loading(what, done, total);
  });
  const auto dataset = for_net(config, opened, from);
  const int64_t samples = dataset->train->size();
  if (config.batch > samples) {
    fail_usage("`batch` {}: {} has {} training {}s only", config.batch, config.data, samples,
               dataset->info.noun());
  }
  if (dataset->info.label == LabelKind::number && std::isfinite(config.target_accuracy)) {
    fail_usage(
        "`target-accuracy`: {} has ratings, which have no accuracy; use `target-loss`, the RMSE's "
        "square",
        config.data);
  }
  if (!dataset->info.note.empty()) observer.note(dataset->info.note);
  if (const auto note = class_note(config.data, *dataset)) observer.note(*note);
  if (const auto note = sparse_note(config, *dataset)) observer.note(*note);
  if (from && (!from->fits(dataset->info) || from->samples != samples)) {
    fail(
        "{} is not the data that the run was trained on: that had {} {}s of {}, and this has {} of "
        "{}{}",
        config.data, from->samples, dataset->info.noun(),
        data::shape_text(from->image, from->classes, from->groups), samples,
        data::shape_text(dataset->info.image, dataset->info.classes, dataset->info.groups),
        from->groups.empty() ? "" : "; and users and items need the same numbers");
  }
  return dataset;
}

RunConfig fitted(const RunConfig& config, const data::Dataset& dataset, const Checkpoint* from) {
  const int64_t batches = (dataset.train->size() + config.batch - 1) / config.batch;
  RunConfig fitted = config.with_at_most(batches / config.device.count / world_size());
  if (fitted.teams.empty()) fitted.teams = {config.team(from->position.arrangement)};
  while (fitted.teams.size() > 1 && never_exchanges(config, fitted.teams.back(), batches)) {
    fitted.teams.pop_back();
  }
  const bool free = std::ranges::all_of(
      fitted.teams, [&](const TeamConfig& team) { return fitted.steps_freely(team); });
  const int64_t most = std::max<int64_t>(1, batches / fitted.teams.back().learners());
  if (dataset.info.room && free) {
    fitted.steps = std::clamp<int64_t>(kSparseRowsAtATime / config.batch, 1, most);
    // The team that goes on, or one of its changes to come, may be none of those here, and other
    // ranks may have begun the epoch.
    const int64_t rows = from ? from->position.batch_rows : 0;
    if (rows > 0) {
      const int64_t before = rows / config.batch;
      fitted.steps = std::min(fitted.steps, before);
      while (before % fitted.steps != 0) --fitted.steps;  // so that the run's place is one of these
    }
  }
  fitted.batch *= fitted.steps;
  return fitted;
}

void expect_images_to_augment(const RunConfig& config, const data::Dataset& dataset) {
  if (dataset.info.image.rank() == 3) return;
  const bool pads = config.augment.pad > 0;
  if (!pads && !config.augment.mirror) return;
  fail_usage("`{}`: {} has rows of numbers, which are no images; leave it out",
             pads ? "pad" : "mirror", config.data);
}

void expect_changes_fit(const std::vector<LearnerChange>& changes, const RunConfig& config,
                        int64_t batches) {
  for (const LearnerChange& c : changes) {
    const int64_t learners = int64_t{config.device.count} * c.arrangement.learners;
    if (c.batch <= batches && learners <= batches) continue;
    fail(
        "learners.jsonl of `resume` {}: {} from batch {} of epoch {} on, where an epoch has {} "
        "batches; put the file back as it was, or move it away to go on without its changes",
        *config.options.resume, count(learners, "learner"), c.batch, c.epoch + 1, batches);
  }
}

void expect_work(const RunConfig& config, const TeamConfig& team, int64_t batches) {
  const int learners = team.learners();
  for (const WorkerConfig& worker : team.workers) {  // it may be left alone with an epoch's rest
    if (worker.least <= batches * config.batch - (config.batch - 1)) continue;
    fail_usage("`worker` {}: its smallest batch, {}, is more than {} has training rows",
               worker.kind(), worker.least, config.data);
  }
  if (learners > batches) {
    const std::string ranks = team.ranks > 1 ? fmt::format(" of {} ranks", team.ranks) : "";
    fail_usage("`learners` {}: on {}{} they are more than the {} batches of {} images of {}",
               team.arrangement.learners, config.options.device, ranks, batches, config.batch,
               config.data);
  }
  if (!never_exchanges(config, team, batches)) return;
  fail_usage("`sync-period` {}: the run has {} only, so that {}", config.asked_period,
             count(steps_of(config, team, batches), "step"),
             learners == 1 ? "no mean over time would be taken"
                           : fmt::format("{} learners would never agree", learners));
}

}  // namespace crossbow
