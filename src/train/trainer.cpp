#include "train/trainer.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "comm/world.h"
#include "core/error.h"
#include "core/text.h"
#include "plan/named_tensors.h"
#include "train/clock_config.h"
#include "train/cluster.h"
#include "train/config.h"
#include "train/initial_weights.h"
#include "train/recipe.h"
#include "train/result.h"
#include "train/run_data.h"
#include "train/turns.h"

namespace crossbow {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Afterwards the phase is the one of before, after an error too.
struct KeptPhase {
  ~KeptPhase() { progress.phase = phase; }
  Progress& progress;
  const Progress::Phase phase = progress.phase;
};

}  // namespace

Trainer::Trainer(const GraphFunction& graph, const RunConfig& config, RunFolder* folder,
                 const Checkpoint* from, Throughput& throughput, Observer& observer)
    : observer_(observer),
      start_(Clock::now()),
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
  if (config_.keep_best && folder_) best_.emplace(folder_->path(), from != nullptr);
  if (from) {
    tuner_.preset(from->plan);
    if (folder_) tuner_.preset(folder_->plan_before());
    position_ = saved_ = from->position;
    const int before = team.learners_here() * static_cast<int>(position_.ranks);
    if (const int64_t rows = position_.batch_rows; rows > config_.batch) {
      position_.batch = std::min(position_.batch * (rows / config_.batch), batches_->batches());
    }
    position_.engine =
        position_.engine.with_learners(team.learners(), before, exchanges_by_now(team));
    history_ = from->history;
    std::vector<LearnerChange> changes;  // which a process on its own found best
    if (folder_ && !world() && position_.ranks == 1) changes = folder_->changes_after(position_);
    expect_changes_fit(changes, config_, batches_->batches());
    // Ranks keep the number that all of them have read.
    search_.resume(position_.arrangement, position_.settled || world(), changes);
  } else {
    if (!config_.replay.empty()) {
      tuner_.preset(read_choices(std::filesystem::path(config_.replay) / "plan.json"));
    }
    team = config_.team(search_.start());
    position_.settled = search_.settled();
  }
  position_.batch_rows = config_.batch;
  try {
    arrange(team, from);
  } catch (const UsageError& e) {  // its remedy may be a setting that cannot change any more
    if (!from) throw;
    fail_usage("{}; a resumed run keeps its settings, so that others need a new one", e.what());
  }
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
  for (const std::string& note : schedule_notes(config_.schedule, config_.epochs)) {
    observer.note(note);
  }
  tell_team();
}

/// A run that is asked to stop is then saved before a step is made with kernels nobody has chosen.
bool Trainer::stop_timing(int64_t timed) {
  observer_.progress.timed = timed;
  observer_.progress.phase = Progress::Phase::timing_kernels;
  return observer_.stop_requested();
}

void Trainer::make_team(const TeamConfig& team) {
  const KeptPhase kept{observer_.progress};  // which changes while kernels are timed
  team_.reset();
  if (world_rank() > 0) share_choices();
  team_ = std::make_unique<Team>(graph_, config_, team, *dataset_, *batches_, tuner_, models_);
  models_ = team_->models;
  if (world() && world_rank() == 0) share_choices();
}

void Trainer::arrange(const TeamConfig& team, const Checkpoint* from) {
  make_team(team);
  position_.arrangement = team.arrangement;
  position_.ranks = world_size();
  Engine& engine = *team_->engine;
  Replica first(engine.layout(), /*with_gradients=*/false);
  if (from) {
    restore(*from, engine.layout(), first);
  } else {
    initialise(engine.layout(), first, config_.seed);
    if (const auto& init = config_.options.init) {
      for (const std::string& note : start_from_file(*init, engine.layout(), first)) {
        observer_.note(note);
      }
    }
    for (const auto& [name, values] : config_.first_weights) {
      write_named(engine.layout(), first, name, values);
    }
  }
  expect_same_model(engine.layout(), first);
  if (from) {
    const bool same = from->position.arrangement.learners == team.arrangement.learners &&
                      from->position.ranks == world_size();
    if (!same && team.async) position_.engine.nodes.clear();
    engine.restore(first, position_.engine, [&](std::vector<EngineBuffer> buffers) {
      if (!same && team.async) return;  // all nodes begin with what was evaluated
      std::erase_if(buffers, [&](const EngineBuffer& b) { return !same && !holds(*from, b); });
      restore(*from, engine.layout(), buffers);
    });
  } else {
    engine.start_from(first);
  }
  position_.engine = engine.state().place;
}

void Trainer::share_choices() {
  using nlohmann::json;
  tuner_.preset(json::parse(agreed(json(tuner_.choices()).dump())).get<Choices>());
}

bool Trainer::make(const LearnerChange& change) {
  if (change.arrangement != position_.arrangement) {
    if (!go_on_with(change.arrangement)) return false;
    if (change.settled) tell_team();
  }
  position_.settled = change.settled;
  return true;
}

void Trainer::lose(const LearnerLoss& loss) {
  tell({loss.node, "as `fail` says", /*in_step=*/false});
  const LostNode lost{loss.node, failure_of(config_.options, loss.node)};
  position_.engine = position_.engine.without(lost, loss.noticed);
  Arrangement rest = position_.arrangement;
  --rest.learners;
  go_on_with(rest, loss.learner);
  write_settings();
  tell_team();
}

bool Trainer::go_on_with(const Arrangement& arrangement, std::optional<int> lost) {
  const auto start = Clock::now();
  Checkpoint before = state(engine().snapshot());
  copy_values(before);
  if (lost) drop_learner(before, *lost);
  const TeamConfig next = config_.team(arrangement);
  const EnginePlace place = position_.engine;
  const Arrangement old = position_.arrangement;
  position_.engine =
      place.with_learners(next.learners(), engine().all_learners(), exchanges_by_now(next));
  try {
    arrange(next, &before);
  } catch (const Error& e) {  // most likely memory is short, which has no error of its own
    const bool is_trial = search_.ahead() == 0 && arrangement.learners > old.learners;
    if (!is_trial) throw;
    observer_.note(fmt::format("{} cannot be had: {}", text_of(arrangement), e.what()));
    position_.engine = place;
    arrange(config_.team(old), &before);
    position_.seconds += seconds_since(start);
    return false;
  }
  move_rate();
  position_.seconds += seconds_since(start);
  return true;
}

void Trainer::write_settings() {
  if (folder_) folder_->write_plan(tuner_.choices());
  write_config();
}

int64_t Trainer::exchanges_by_now(const TeamConfig& team) const {
  return team.exchanges_before(position_.epoch, position_.batch, batches_->batches());
}

/// Of all images, where the noise is known.
std::optional<double> Trainer::efficiency_now() const {
  const auto noise = position_.engine.noise.images(config_.batch);
  if (!noise) return {};
  return efficiency(*noise, config_.batch, team_->engine->all_learners());
}

/// From now on towards what so many learners need.
void Trainer::move_rate() {
  const double factor = rate_factor(config_.lr_scaling, engine().all_learners(), efficiency_now());
  const bool grows_from_0 = schedule_.warmup > 0 && recorder_.samples_seen() == 0;
  const auto length = static_cast<int64_t>(kRateMoveEpochs * static_cast<double>(samples()));
  position_.rate_factor =
      position_.rate_factor.moving_to(factor, recorder_.samples_seen(), grows_from_0 ? 0 : length);
}

void Trainer::make_changes() {
  const std::pair now(position_.epoch, position_.batch);
  while (const auto change = search_.due(now, position_.settled)) {
    const bool is_new = search_.ahead() == 0;
    const Arrangement before = position_.arrangement;
    if (!make(*change)) {
      search_.refuse();
      continue;
    }
    if (folder_ && is_new) folder_->learners().append(*change);  // before anything depends on it
    if (position_.arrangement != before) write_settings();
    search_.made(*change);
  }
}

void Trainer::tell_team() {
  const ThreadPlan& plan = team_->config.threads;
  const std::string devices =
      plan.devices == 1 ? "" : fmt::format(" on each of {} devices", plan.devices);
  const std::string& sync = config_.options.sync;
  const std::string alone =
      engine().all_learners() == 1 && sync != "none" && !engine().synchronises()
          ? fmt::format("; alone, `sync` {} is plain SGD", sync)
          : "";
  const std::vector<WorkerConfig>& workers = team_->config.workers;
  const std::string who =
      workers.empty() ? text_of(position_.arrangement) + devices : text_of(workers);
  const std::string ranks =
      world_size() > 1 ? fmt::format(" on each of {} ranks", world_size()) : "";
  std::string settled;
  for (const auto& [name, value] : settled_texts())
    settled += fmt::format("; `{}` {}", name, value);
  observer_.note(
      fmt::format("{}{}: {}{}{}{}", who, ranks, plan.text(), alone, rate_text(), settled));
}

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

std::string Trainer::rate_text() const {
  const double factor = position_.rate_factor.to;
  return factor == 1 ? "" : fmt::format("; {:.3g} times the rate of one", factor);
}

Trainer::Settled Trainer::settled_texts() const {
  TrainOptions settled = settled_options(config_.options, team_->config);
  const bool has_states = team_->models.front()->parameters()->state_elements > 0;
  if (has_states && (team_->config.sync || team_->config.async)) {
    settled.bn_images = config_.bn_images(team_->config, /*states=*/true);
  }
  return crossbow::settled_texts(config_.options, settled);
}

TrainResult Trainer::run() {
  if (saves_) open_records();
  // A crash may have come between an epoch's checkpoint and this.
  const bool ended = position_.batch == 0 && !history_.empty();
  if (agreed(best_ && ended && best_->beaten_by(history_.back()))) {
    save();
    keep_if_best();
  }
  if (salvaged_ && position_.batch == 0) {  // the epoch's checkpoint may be missing
    save();
    keep_if_best();
  }
  if (position_.epoch >= config_.epochs) {
    observer_.note(fmt::format("nothing is left to do: the run has its {}; `epochs` sets more",
                               count(config_.epochs, "epoch")));
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
  const auto start = Clock::now();
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
  segment.ends_at_drop = schedule_.drops(recorder_.samples_at(first + segment.batches)) > drops;
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
  make_changes();
  if (to_stop || (is_asked && done < segment.batches)) return false;
  if (saves_ && position_.batch < batches_->batches() && agreed(save_timer_.due())) save();
  return true;
}

bool Trainer::meet(int64_t first, int64_t done, double seconds) {
  const auto losses = std::span(losses_).first(static_cast<size_t>(done));
  ranks_->end(first, losses, seconds, engine().share_seconds());
  if (!saves_) engine().take_turns();  // which nobody writes down
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
    if (position_.open_batches >= k) recorder_.end_iteration();  // there were more learners
    const int64_t n = std::min(k - position_.open_batches, end - position_.batch);
    const auto losses = std::span(losses_).subspan(static_cast<size_t>(position_.batch - first),
                                                   static_cast<size_t>(n));
    if (const auto bad = recorder_.take(losses)) {
      fail_not_finite(loss_became(*bad), position_.step - 1, recorder_.rate_at(position_.batch));
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

/// The time that the model's batch-norm statistics take counts as training time.
const Replica& Trainer::model() {
  const auto start = Clock::now();
  const Replica& model = team_->model_at(recorder_.samples_seen());
  if (team_->statistics) position_.seconds += seconds_since(start);
  expect_same_model(engine().layout(), model);
  return model;
}

bool Trainer::finish_epoch() {
  const bool last = position_.epoch + 1 == config_.epochs;
  const bool evaluated = last || (position_.epoch + 1) % config_.eval_every == 0;
  if (evaluated || saves_) model();  // as it is now, for what follows
  EpochRecord record;
  record.epoch = position_.epoch + 1;
  record.train_loss = position_.loss_sum / static_cast<double>(samples());
  record.seconds = position_.seconds;
  record.images_per_second = static_cast<double>(samples()) / position_.seconds;
  record.learners = position_.arrangement.learners;
  record.distance = engine().distance();
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
    fail_not_finite(loss_became(evaluation->loss), position_.step,
                    recorder_.rate_at(position_.batch));
  }
  record.test_loss = evaluation->loss;
  record.test_accuracy = evaluation->accuracy;
  record.test_top5 = evaluation->top5;
  record.test_auc = evaluation->auc;
  record.test_rmse = evaluation->rmse;
  return true;
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
                    position_.step, recorder_.rate_at(position_.batch));
  }
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
  if (best_ && !history_.empty() && best_->beaten_by(history_.back())) best_->keep(history_.back());
}

bool Trainer::reached_target() const {
  return !history_.empty() && config_.is_reached_by(history_.back());
}

bool Trainer::out_of_patience() const {
  return evaluations_since_best(history_) >= config_.patience;
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

std::string Trainer::loss_became(double loss) const {
  return fmt::format("the loss became {} at step {} (epoch {})",
                     std::isnan(loss) ? std::abs(loss) : loss, position_.step, position_.epoch + 1);
}

void Trainer::fail_not_finite(const std::string& what, int64_t updates, double lr) const {
  if (updates == 0) {
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
