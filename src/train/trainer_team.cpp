// The team of a run, and how it changes while the run goes on.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "comm/world.h"
#include "core/error.h"
#include "core/seconds_since.h"
#include "plan/named_tensors.h"
#include "train/clock_config.h"
#include "train/cluster.h"
#include "train/config.h"
#include "train/initial_weights.h"
#include "train/trainer.h"

namespace crossbow {
namespace {

/// Afterwards the phase is the one of before, after an error too.
struct KeptPhase {
  ~KeptPhase() { progress.phase = phase; }
  Progress& progress;
  const Progress::Phase phase = progress.phase;
};

}  // namespace

/// A run that is asked to stop is then saved before a step is made with kernels nobody has chosen.
bool Trainer::stop_timing(int64_t timed) {
  observer_.progress.timed = timed;
  observer_.progress.phase = Progress::Phase::timing_kernels;
  return observer_.stop_requested();
}

/// Of a learner alone z is the model that the run began with until its first exchange, and no place
/// for another one to start from.
static void begin_where_the_one_is(const Checkpoint& from, const ParameterLayout& layout,
                                   const Replica& first) {
  EngineBuffer weights{EngineBuffer::Kind::weights, 1, first.parameters.data(), first.device, {}};
  const bool several = holds(from, weights);
  weights.index = 0;
  if (several || from.position.engine.exchanges > 0 || !holds(from, weights)) return;
  restore(from, layout, {&weights, 1});
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
  const bool same = from && from->position.arrangement.learners == team.arrangement.learners &&
                    from->position.ranks == world_size();
  if (from) {
    restore(*from, engine.layout(), first);
    if (!same) begin_where_the_one_is(*from, engine.layout(), first);
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

void Trainer::tell_refusal(const Arrangement& arrangement, const std::exception& why) {
  const bool is_short = dynamic_cast<const std::bad_alloc*>(&why);
  observer_.note(fmt::format("{} cannot be had: {}", text_of(arrangement),
                             is_short ? "out of memory" : why.what()));
}

bool Trainer::go_on_with(const Arrangement& arrangement, std::optional<int> lost) {
  const auto start = std::chrono::steady_clock::now();
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
  } catch (const std::exception& e) {  // most likely memory is short
    const bool is_trial = search_.ahead() == 0 && arrangement.learners > old.learners;
    if (!is_trial) throw;
    tell_refusal(arrangement, e);
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

}  // namespace crossbow
