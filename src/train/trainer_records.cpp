// What a run leaves: its folder's files, its checkpoints and its result.
#include <fmt/format.h>

#include <algorithm>

#include "comm/world.h"
#include "core/seconds_since.h"
#include "core/text.h"
#include "train/cluster.h"
#include "train/result.h"
#include "train/trainer.h"
#include "train/turns.h"

namespace crossbow {

/// A new run saves at once, so that whatever ends it leaves one that can be gone on with.
void Trainer::open_records() {
  if (agreed(folder_ && folder_->is_new())) save(engine().snapshot());
  if (!folder_) return;
  folder_->open_records([this](std::string_view text) { observer_.note(text); });
  folder_->write_plan(tuner_.choices());
  write_config();
}

void Trainer::write_config() {
  if (!folder_) return;
  std::vector<std::string> notes;
  const Settled settled = settled_texts();
  if (!settled.empty() || !rate_text().empty()) {
    notes.push_back(fmt::format("Of {}{}", count(engine().all_learners(), "learner"), rate_text()));
  }
  for (const auto& [name, value] : settled) notes.push_back(fmt::format("{} = {}", name, value));
  folder_->write_config(config_.options, notes);
}

Checkpoint Trainer::state(const Replica& model) const {
  Checkpoint checkpoint;
  checkpoint.options = config_.options;
  checkpoint.options.retune = false;  // that was for this time
  checkpoint.image = dataset_->info.image;
  checkpoint.classes = dataset_->info.classes;
  checkpoint.class_names = dataset_->info.class_names;
  checkpoint.label = dataset_->info.label;
  checkpoint.groups = dataset_->info.groups;
  checkpoint.group_names = dataset_->info.group_names;
  checkpoint.normalisation = dataset_->info.normalisation;
  checkpoint.samples = samples();
  checkpoint.position = position_;
  checkpoint.position.wall_seconds += seconds_since(start_);
  if (folder_) {
    checkpoint.position.changes = folder_->learners().size() - search_.ahead();
  }
  checkpoint.history = history_;
  checkpoint.plan = tuner_.choices();
  store(team_->engine->layout(), model, checkpoint);
  store(team_->engine->layout(), team_->engine->state().buffers, checkpoint);
  return checkpoint;
}

void Trainer::save() {
  if (saves_) save(model());
}

void Trainer::save(const Replica& model) {
  if (!all_finite(engine().layout(), model, engine().state().buffers)) {
    fail_not_finite(fmt::format("the weights are infinite or NaN after step {}", position_.step),
                    position_.step > 0, recorder_.rate_at(position_.batch));
  }
  end_iteration_of_more();
  const std::vector<int32_t> own = engine().take_turns();
  const auto turns = ranks_ ? ranks_->take_turns(own) : std::optional(encode_turns(own));
  if (folder_) {
    note_open_search();
    if (!turns) folder_->forget_turns();
    folder_->append_turns(turns.value_or(""),
                          [this](std::string_view text) { observer_.note(text); });
    folder_->sync();
  }
  Checkpoint checkpoint = state(model);
  if (world()) gather_learners(checkpoint, engine().learners());
  if (!folder_) return;
  checkpoint.metrics_bytes = folder_->metrics_bytes();
  checkpoint.turns_bytes = folder_->turns_bytes();
  save_checkpoint(folder_->path(), checkpoint);
  saved_ = position_;
  save_timer_.restart();
}

/// A change that changes nothing: whoever goes on from an older checkpoint does not search before
/// this place, and the steps up to here are the same again.
void Trainer::note_open_search() {
  const LearnerChange here{position_.epoch, position_.batch, position_.arrangement, false};
  const auto& known = folder_->learners().changes();
  const auto furthest = known.empty() ? std::pair<int64_t, int64_t>() : known.back().place();
  if (!position_.settled && furthest < here.place()) folder_->learners().append(here);
}

void Trainer::keep_if_best() {
  if (best_ && best_->beaten_by(history_)) best_->keep(history_.back());
}

TrainResult Trainer::result(bool interrupted) const {
  TrainResult r = result_of(config_, history_, position_, recorder_.samples_seen());
  r.interrupted = interrupted;
  r.tried = search_.tried();
  r.nodes = position_.engine.nodes;
  r.lost_nodes = position_.engine.lost;
  if (world()) r.ranks = world_size();
  r.workers = worker_reports();
  if (config_.pace) r.virtual_seconds = position_.engine.virtual_time * mean_step_seconds(r);
  r.stopped_early = !interrupted && position_.epoch < config_.epochs && !reached_target();
  if (best_ && best_->epoch()) r.best_epoch_kept = best_->epoch()->epoch;
  r.seconds = position_.wall_seconds + seconds_since(start_);
  r.label = dataset_->info.label;
  r.parameters = team_->engine->layout().trained();
  r.frozen = team_->engine->layout().frozen();
  r.memory = team_->memory;
  return r;
}

/// As the virtual clock's pace says, or by all learners so far.
double Trainer::mean_step_seconds(const TrainResult& r) const {
  if (config_.pace->step_seconds > 0) return config_.pace->step_seconds;
  double busy = 0, updates = 0;
  for (const NodeState& node : r.nodes) {
    busy += node.report.busy;
    updates += static_cast<double>(node.report.updates);
  }
  if (updates > 0) return busy / updates;
  const auto batches = static_cast<double>(position_.epoch * batches_->batches() + position_.batch);
  return r.train_seconds * team_->memory.workers / std::max(batches, 1.0);
}

std::vector<WorkerReport> Trainer::worker_reports() const {
  return crossbow::worker_reports(team_->config.workers, position_.engine, config_.batch,
                                  config_.device.kind);
}

std::string Trainer::kept_checkpoint() const {
  if (!folder_ || saved_.step == 0) return "";
  const std::string which = saved_.batch == 0
                                ? fmt::format("epoch {}", saved_.epoch)
                                : fmt::format("step {} (epoch {})", saved_.step, saved_.epoch + 1);
  return fmt::format("; {} keeps the checkpoint of {}", folder_->path().string(), which);
}

}  // namespace crossbow
