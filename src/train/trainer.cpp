#include "train/trainer.h"

#include <algorithm>
#include <cmath>

#include "comm/world.h"
#include "core/error.h"
#include "core/seconds_since.h"
#include "core/text.h"
#include "train/cluster.h"
#include "train/recipe.h"
#include "train/run_data.h"

namespace crossbow {

Trainer::Trainer(const GraphFunction& graph, const RunConfig& config, RunFolder* folder,
                 const Checkpoint* from, Throughput& throughput, Observer& observer)
    : observer_(observer),
      start_(std::chrono::steady_clock::now()),
      dataset_(open_data(config, from, observer)),
      config_(fitted(config, *dataset_, from)),
      graph_(config_.with_frozen(graph(spec_of(dataset_->info, config_.batch, config_.loss)))),
      tuner_(Tuner::default_file(), [this](int64_t timed) { return stop_timing(timed); }),
      batches_(config_.training_source(*dataset_)),
      schedule_(Schedule::of(config_.schedule, config_.epochs, dataset_->train->size())),
      folder_(folder),
      saves_(agreed(folder != nullptr)),
      salvaged_(from && from->position.ranks == 0),
      save_timer_(folder ? config_.save_every : SaveTimer::kNever),
      losses_(static_cast<size_t>(batches_->batches())),
      recorder_(position_, config_, samples(), schedule_, folder, observer),
      search_(config_, graph_, tuner_, throughput, observer),
      watch_(dataset_->info.classes, loss_levels(*dataset_, config_.loss), config_.schedule.lr),
      statistics_watch_(graph_, dataset_->info.classes) {
  TeamConfig team = from ? config_.team(from->position.arrangement) : config_.teams.front();
  expect_alike(config_.options, *dataset_, team.learners_here(), from ? &from->position : nullptr);
  expect_work(config_, team, batches_->batches());
  if (!from) expect_images_to_augment(config_, *dataset_);
  if (config_.keep_best && folder_) best_.emplace(folder_->path(), from != nullptr);
  if (from) {
    tuner_.preset(from->plan);
    if (folder_) tuner_.preset(folder_->plan_before());
    position_ = saved_ = from->position;
    const int before = team.learners_here() * static_cast<int>(position_.ranks);
    if (const int64_t rows = position_.batch_rows; rows > config_.batch) {
      position_.batch = std::min(position_.batch * (rows / config_.batch), batches_->batches());
      position_.open_batches *= rows / config_.batch;
    }
    position_.engine =
        position_.engine.with_learners(team.learners(), before, exchanges_by_now(team));
    history_ = from->history;
    std::vector<LearnerChange> changes;  // which a process on its own found best
    if (folder_ && !world() && position_.ranks == 1) changes = folder_->changes_after(position_);
    expect_changes_fit(changes, config_, batches_->batches());
    // Ranks keep the number that all of them have read.
    search_.resume(position_.arrangement, position_.settled || world(), changes,
                   position_.engine.noise.images(config_.batch));
  } else {
    if (!config_.replay.empty()) {
      tuner_.preset(read_choices(std::filesystem::path(config_.replay) / "plan.json"));
    }
    team = config_.team(search_.start());
  }
  position_.batch_rows = config_.batch;
  try {
    arrange(team, from);
  } catch (const Error& e) {
    if (from && dynamic_cast<const UsageError*>(&e)) {  // its remedy cannot change any more
      fail_usage("{}; a resumed run keeps its settings, so that others need a new one", e.what());
    }
    if (from || search_.choice() != LearnerChoice::remembered) throw;
    tell_refusal(team.arrangement, e);
    team = config_.team(search_.start_below_remembered());
    arrange(team, nullptr);
  }
  if (!from) position_.settled = search_.settled();
  const bool other_ranks = from && from->position.ranks != world_size();
  if (!from || other_ranks) move_rate();
  if (folder_ && other_ranks) folder_->forget_turns();
  if (world()) {
    ranks_.emplace(team, config_.options, from != nullptr, saves_, batches_->batches());
  }
  const int most = config_.teams.back().arrangement.learners;
  search_.limit(team_->affordable(config_, *dataset_, most));
  observer.note(promise(config_, search_.choice(), tuner_.save()));
  observer.started(config_.options, samples());
  if (!search_.settled()) {
    if (const auto note = goodput_note(config_)) observer.note(*note);
  }
  for (const std::string& note : schedule_notes(config_.schedule, config_.epochs)) {
    observer.note(note);
  }
  tell_team();
}

TrainResult Trainer::run() {
  if (saves_) open_records();
  // A crash may have come between an epoch's checkpoint and this.
  const bool ended = position_.batch == 0 && !history_.empty();
  if (agreed(best_ && ended && best_->beaten_by(history_))) {
    save();
    keep_if_best();
  }
  if (salvaged_ && position_.batch == 0) {  // the epoch's checkpoint may be missing
    save();
    keep_if_best();
  }
  if (position_.epoch >= config_.epochs) {
    observer_.note(fmt::format("nothing is left to do: the run has had {}; `epochs` sets more",
                               count(position_.epoch, "epoch")));
  }
  while (position_.epoch < config_.epochs && !reached_target() && !out_of_patience()) {
    if (!train_epoch() || !finish_epoch()) {
      save();
      return result(true);
    }
    save();
    keep_if_best();
  }
  return result(false);
}

Checkpoint Trainer::salvage() {
  engine().salvage();
  position_.engine = engine().state().place;
  position_.engine.nodes.clear();  // of which those that are left begin anew, with new steps
  if (position_.open_batches > 0) recorder_.end_iteration();
  return state(engine().snapshot());
}

bool Trainer::train_epoch() {
  Progress& progress = observer_.progress;
  progress.phase = Progress::Phase::training;
  progress.epoch = position_.epoch;
  progress.done = std::min(position_.batch * config_.batch, samples());
  progress.total = samples();
  if (position_.batch == 0) {
    search_.reconsider(position_.engine.noise.images(config_.batch));
    if (config_.lr_scaling == "adascale" && position_.epoch > 0) {
      move_rate();
      write_config();
    }
  }
  make_changes();
  if (world() && any_rank_is_to_stop()) return false;  // perhaps before all kernels were chosen
  begin_batches();
  bool done = true;
  while (done && position_.batch < batches_->batches()) done = train_segment();
  return done;
}

/// To the end of the epoch, of a round, or another number of learners; where learners wait for each
/// other, to the next drop of the rate, or to what all have in common when one of them fails.
bool Trainer::train_segment() {
  const int64_t first = position_.batch;
  const int64_t k = engine().all_learners();
  const int64_t drops = schedule_.drops(recorder_.samples_seen());
  const int64_t until_drop =
      schedule_.next_drop(recorder_.samples_seen()) - recorder_.samples_seen();
  const int64_t iterations = (until_drop - 1) / (k * config_.batch) + 1;
  const auto start = std::chrono::steady_clock::now();
  const double before = position_.seconds;
  int64_t left = search_.next_batch(position_.epoch, batches_->batches()) - first;
  if (const int64_t round = engine().round(); round > 0) {
    left = std::min(left, round - first % round);
  }
  if (ranks_) {
    left = ranks_->length(left);
    if (ranks_->has_new_shares()) begin_batches();
  }

  Segment segment;
  segment.source = batches_.get();
  segment.epoch = position_.epoch;
  segment.epoch_batches = batches_->batches();
  segment.first_batch = first;
  segment.batches = team_->config.async || iterations > left / k ? left : iterations * k;
  if (const auto share = ranks_ ? ranks_->share() : std::nullopt) segment.share = *share;
  segment.after_first_drop = drops > 0;
  if (const auto loss = engine().next_loss(segment)) {
    if (loss->batches == 0) {
      lose(*loss);
      return true;
    }
    segment.batches = loss->batches;
  }
  segment.ends_at_drop = schedule_.drops_by_stages() &&
                         schedule_.drops(recorder_.samples_at(first + segment.batches)) > drops;
  segment.rate = [this](int64_t batch) { return recorder_.rate_at(batch); };
  // A cluster's segments are short, and end for all ranks alike.
  std::atomic<bool> is_asked{false};
  segment.stop = [&, alone = !world()] {  // which other threads cannot ask
    if (!alone) return false;
    if (observer_.stop_requested()) is_asked = true;
    return is_asked || search_.moving();
  };
  segment.pause = [this, alone = !world()] { return alone && save_timer_.due(); };
  segment.losses = losses_;
  segment.progress = [&](int64_t done) {
    tell_failures();
    if (!world()) report(first, done, /*whole=*/false);
    search_.progress(done);
  };
  search_.begin_segment();
  in_segment_ = true;
  const int64_t done = run(segment);
  const bool to_stop = ranks_ && meet(first, done, seconds_since(start));
  report(first, done, done == segment.batches);
  in_segment_ = false;
  position_.seconds = before + seconds_since(start);
  position_.waiting_seconds += batches_->take_waited_seconds() / engine().threads();

  position_.engine = engine().state().place;
  if (!saves_) engine().take_turns();  // which nobody writes down
  make_changes();
  if (to_stop || (is_asked && done < segment.batches)) return false;
  if (saves_ && position_.batch < batches_->batches() && agreed(save_timer_.due())) save();
  return true;
}

bool Trainer::meet(int64_t first, int64_t done, double seconds) {
  const auto losses = std::span(losses_).first(static_cast<size_t>(done));
  ranks_->end(first, losses, seconds, engine().share_seconds());
  return any_rank_is_to_stop();
}

/// From the position on; what was made ahead is lost.
void Trainer::begin_batches() {
  if (ranks_) ranks_->serve(position_.batch, *batches_);
  batches_->start(position_.epoch, position_.batch);
}

bool Trainer::any_rank_is_to_stop() {
  return std::ranges::any_of(of_all_ranks(static_cast<char>(observer_.stop_requested())),
                             [](char stop) { return stop != 0; });
}

int64_t Trainer::run(const Segment& segment) {
  if (world()) std::ranges::fill(losses_, 0.0f);  // where others' are added
  try {
    return engine().run(segment);
  } catch (const NodesFailed& error) {
    tell_failures();
    fail("{}{}", error.what(), kept_checkpoint());
  }
}

void Trainer::tell_failures() {
  for (const NodeFailure& failure : engine().take_failures()) tell(failure);
}

void Trainer::tell(const NodeFailure& failure) {
  observer_.note(fmt::format("node {} has failed and goes no further{}: {}", failure.node,
                             failure.in_step ? "; another takes its batch" : "", failure.why));
}

void Trainer::report(int64_t first, int64_t done, bool whole) {
  const int64_t k = engine().all_learners(), end = first + done;
  while (position_.batch < end) {
    end_iteration_of_more();
    const int64_t n = std::min(k - position_.open_batches, end - position_.batch);
    const auto losses = std::span(losses_).subspan(static_cast<size_t>(position_.batch - first),
                                                   static_cast<size_t>(n));
    if (const auto bad = recorder_.take(losses)) {
      const bool learns_within =
          config_.steps > 1 || (find_async(config_.options.sync) && std::isfinite(losses.front()));
      const bool has_learned = position_.step > 1 || learns_within;
      fail_not_finite(loss_became(*bad), has_learned, recorder_.rate_at(position_.batch));
    }
    if (position_.open_batches == k) recorder_.end_iteration();
  }
  const bool goes_on =
      ranks_ && ranks_->share() && position_.batch < batches_->batches();  // in the next segment
  if (whole && !goes_on && position_.open_batches > 0) recorder_.end_iteration();
  observer_.progress.done.store(std::min(position_.batch * config_.batch, samples()),
                                std::memory_order_relaxed);
  if (const auto note = watch_.look(observer_.progress.loss)) observer_.note(*note);
}

/// Where there were more learners than there are now.
void Trainer::end_iteration_of_more() {
  if (position_.open_batches >= engine().all_learners()) recorder_.end_iteration();
}

/// The time that the model's batch-norm statistics take counts as training time.
const Replica& Trainer::model() {
  const auto start = std::chrono::steady_clock::now();
  const Replica& model = team_->model_at(recorder_.samples_seen());
  if (team_->statistics) position_.seconds += seconds_since(start);
  expect_same_model(engine().layout(), model);
  return model;
}

bool Trainer::finish_epoch() {
  EpochRecord record;
  record.epoch = position_.epoch + 1;
  record.train_loss = position_.loss_sum / static_cast<double>(samples());
  record.distance = engine().distance();  // of nodes, it leaves another model to be evaluated
  const bool last = record.epoch == config_.epochs || config_.is_reached_by(record);
  const bool evaluated = last || record.epoch % config_.eval_every == 0;
  if (evaluated || saves_) model();  // as it is now, for what follows
  record.seconds = position_.seconds;
  record.images_per_second = static_cast<double>(samples()) / position_.seconds;
  record.learners = position_.arrangement.learners;
  if (config_.pace) record.virtual_time = position_.engine.virtual_time;
  if (config_.pace && config_.pace->step_seconds > 0) {
    record.virtual_seconds = position_.engine.virtual_time * config_.pace->step_seconds;
  }
  const auto noise = position_.engine.noise.images(config_.batch);
  if (noise && std::isfinite(*noise)) record.noise_scale = noise;
  record.efficiency = efficiency_now();
  if (record.efficiency) record.goodput = record.images_per_second * *record.efficiency;
  if (evaluated && !evaluate(record)) return false;

  history_.push_back(record);
  if (folder_) folder_->metrics().epoch(record, position_.engine, worker_reports());
  ++position_.epoch;
  position_.batch = 0;
  position_.loss_sum = position_.seconds = 0;
  observer_.epoch_done(record);
  if (const auto note = watch_.epoch_done(record, observer_.progress.loss)) observer_.note(*note);
  if (team_->statistics) return true;
  if (const auto note = statistics_watch_.epoch_done(record, position_.step)) observer_.note(*note);
  return true;
}

bool Trainer::evaluate(EpochRecord& record) {
  Progress& progress = observer_.progress;
  progress.done = 0;
  progress.total = dataset_->test->size();
  progress.phase = Progress::Phase::evaluating;
  const bool alone = !world();
  const auto evaluation = team_->evaluator.run([&] { return alone && observer_.stop_requested(); },
                                               [&](int64_t done) { progress.done = done; });
  if (!evaluation) return false;
  // The last update of the epoch may have been the one too many.
  if (!std::isfinite(evaluation->loss)) {
    fail_not_finite(loss_became(evaluation->loss), position_.step > 0,
                    recorder_.rate_at(position_.batch));
  }
  record.test_loss = evaluation->loss;
  record.test_accuracy = evaluation->accuracy;
  record.test_top5 = evaluation->top5;
  record.test_auc = evaluation->auc;
  record.test_rmse = evaluation->rmse;
  return true;
}

bool Trainer::reached_target() const {
  return !history_.empty() && config_.is_reached_by(history_.back());
}

bool Trainer::out_of_patience() const {
  return evaluations_since_best(history_) >= config_.patience;
}

std::string Trainer::loss_became(double loss) const {
  return fmt::format("the loss became {} at step {} (epoch {})",
                     std::isnan(loss) ? std::abs(loss) : loss, position_.step, position_.epoch + 1);
}

void Trainer::fail_not_finite(const std::string& what, bool has_learned, double lr) const {
  if (!has_learned) {
    fail(
        "{}, before anything was learned: look for extreme values in the data, or in the first "
        "weights of the net",
        what);
  }
  fail(
      "{}: the learning rate {:.3g} is probably too high; try `lr` {:.1g} or `clip-norm` 1 in a "
      "new "
      "run{}",
      what, lr, config_.schedule.lr / 10, kept_checkpoint());
}

}  // namespace crossbow
