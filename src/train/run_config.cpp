#include "train/run_config.h"

#include <algorithm>

#include "comm/world.h"
#include "core/error.h"
#include "data/range_source.h"
#include "device/hogwild_sgd.h"
#include "kernels/kernel.h"
#include "kernels/precision.h"
#include "learner/async_engine.h"
#include "learner/noise_probe.h"
#include "learner/synchronous_engine.h"
#include "passes/freeze.h"
#include "train/batch_buffers.h"
#include "train/clock_config.h"
#include "train/nodes_config.h"
#include "train/recipe.h"
#include "train/validate.h"

namespace crossbow {
namespace {

Loss loss_of(const TrainOptions& o) {
  if (o.loss == "sigmoid") return BCEWithLogitsLoss{};
  if (o.loss == "mse") return MSELoss{};
  return CrossEntropyLoss{.label_smoothing = static_cast<float>(o.label_smoothing.value_or(0))};
}

void expect_what_adascale_needs(const RunConfig& c) {
  if (c.lr_scaling != "adascale" || c.options.resume) return;
  if (c.measures_noise(c.teams.back())) return;
  fail_usage(
      "`lr-scaling` adascale: with `sync` {} and `momentum` {} the noise of the gradients is not "
      "measured; choose linear, or `sync` sma with momentum",
      c.options.sync, *c.options.momentum);
}

}  // namespace

RunConfig resolve(TrainOptions options, const Recipe& recipe) {
  RunConfig c;
  c.options = with_recipe(std::move(options), recipe);
  const TrainOptions& o = c.options;
  validate_work(o);
  c.teams = teams_of(o);
  validate_learning(o);

  c.model = o.model;
  c.data = *o.data;
  c.loss = loss_of(o);
  c.device = device_list(o.device);
  c.precision = used_precision(o);
  c.batch = batch_of(o);
  c.splits = o.splits;
  const bool resized = o.crop == "resized";
  c.augment = {resized ? *o.crop_area : 0, static_cast<int>(*o.pad), *o.mirror};
  c.centre = resized ? 0.875 : 1;
  c.shuffle_block = o.shuffle_block;
  c.optimizer =
      make_sgd({*o.momentum, {*o.weight_decay, o.weight_decay_on != "weights"}, *o.nesterov});
  c.clip_norm = o.clip_norm.value_or(0);
  c.schedule = EpochSchedule::of(o);
  if (!has_unlike_workers(o.sync)) c.lr_scaling = o.lr_scaling.value_or(c.lr_scaling);
  c.seed = o.seed;
  c.first_weights = o.first_weights;
  c.normalisation = recipe.normalisation;
  c.epochs = *o.epochs;
  c.eval_every = o.eval_every;
  c.save_every = o.save_every;
  c.log_every = o.log_every;
  c.target_accuracy = o.target_accuracy.value_or(c.target_accuracy);
  c.target_loss = o.target_loss.value_or(c.target_loss);
  c.target_on_train = o.target_on == "train";
  c.patience = o.patience.value_or(c.patience);
  c.deterministic = o.deterministic;
  c.retune = o.retune;
  c.tune_for_goodput = o.tune_for == "goodput";
  c.keep_best = o.keep_best;
  if (is_virtual(o)) c.pace = pace_of(o);
  c.asked_period = o.sync_period.value_or(0);
  c.replay = o.replay.value_or("");
  c.freeze = o.freeze;
  expect_what_adascale_needs(c);
  return c;
}

TeamConfig RunConfig::team(const Arrangement& arrangement) const {
  for (const TeamConfig& team : teams) {
    if (team.arrangement == arrangement) return team;
  }
  return team_of(options, arrangement);
}

RunConfig RunConfig::with_at_most(int64_t most) const {
  RunConfig c = *this;
  while (c.teams.size() > 1 && c.teams.back().arrangement.learners > most) c.teams.pop_back();
  if (!looks_for_learners(options) && !teams.empty())
    c.teams = {team(arrangements_of(options, most).front())};
  return c;
}

Graph RunConfig::with_frozen(Graph forward) const {
  if (!freeze) return forward;
  if (!options.resume) expect_each_found(forward, *freeze);  // older runs were not asked
  return crossbow::freeze(forward, *freeze);
}

std::shared_ptr<const data::Dataset> RunConfig::open_data(
    std::function<void(std::string_view, int64_t, int64_t)> progress) const {
  if (options.dataset) return options.dataset;
  data::OpenOptions open;
  open.image_size = {options.image_size, options.image_size};
  open.keep_encoded = augment.least_area > 0;
  open.progress = std::move(progress);
  return data::open_dataset(data, open);
}

std::unique_ptr<data::TrainingBatches> RunConfig::training_source(
    const data::Dataset& dataset) const {
  const data::PipelineOptions p = training_batches(device.count);
  if (teams.empty() || teams.front().workers.empty()) {
    return std::make_unique<data::Pipeline>(dataset, dataset.train, p);
  }
  std::vector<int64_t> largest;
  for (const WorkerConfig& worker : teams.front().workers) {
    largest.insert(largest.end(), static_cast<size_t>(worker.nodes()), worker.most);
  }
  const data::RowOptions rows{p.shuffle, p.augment, p.seed, p.shuffle_block};
  const int held = find_device(device.kind).is_host() ? 1 : 2;  // one is copied meanwhile
  return std::make_unique<data::RangeSource>(dataset, dataset.train, rows, p.batch, largest, held,
                                             p.allocate);
}

data::PipelineOptions RunConfig::training_batches(int learners) const {
  data::PipelineOptions p;
  p.batch = batch;
  p.shuffle = true;
  p.augment = augment;
  p.shuffle_block = shuffle_block;
  p.seed = seed;
  // A learner that exchanges every time may be two iterations ahead of another, whose batch keeps
  // its buffer. With a longer period the buffers are the limit.
  p.least_depth = 4 * learners;
  Device* const away = first_away();
  return with_memory_for(away ? *away : find_device(device.kind), p);
}

CompileOptions RunConfig::compile_options(const TeamConfig& team, AlgorithmChooser* chooser,
                                          size_t worker) const {
  CompileOptions compile;
  const WorkerConfig* const own = team.workers.empty() ? nullptr : &team.workers[worker];
  const bool away = own && own->is_away();
  compile.device = away ? own->device : device.kind;
  compile.precision = precision;
  compile.tf32 = options.precision == "tf32";
  compile.threads = own ? own->threads_per_node() : team.threads.threads;
  compile.programs = away ? 1 : team.arrangement.learners;
  // On a GPU one launch updates all, where each parameter's would be one.
  const bool one_update = !find_device(device.kind).is_host() && !is_live(team);
  using Timing = SyncAlgorithm::Timing;
  const Timing timing = team.sync ? team.sync->traits().timing : Timing::after_step;
  const bool whole_gradient_first = clip_norm > 0 || splits > 1 || team.averages_gradients() ||
                                    timing == Timing::beside_passes ||
                                    (team.async && !is_live(team)) || one_update || away;
  if (!whole_gradient_first) compile.update = optimizer_of(team);
  compile.updates_in_place = !(own && own->replica) && timing != Timing::beside_step;
  compile.chooser = deterministic ? nullptr : chooser;
  return compile;
}

bool RunConfig::measures_noise(const TeamConfig& team) const {
  return team.sync && NoiseProbe::can_measure(*team.sync, optimizer, team.arrangement.learners);
}

Device* RunConfig::first_away() const {
  if (teams.empty() || teams.front().workers.empty()) return nullptr;
  return away_device(teams.front().workers.back());
}

bool RunConfig::has_kernels(std::string_view op) const {
  const Device* const away = first_away();
  return supports(find_device(device.kind).kernels(), op) &&
         (!away || supports(away->kernels(), op));
}

bool RunConfig::is_live(const TeamConfig& team) const {
  const bool ordered = pace || !replay.empty() || clip_norm > 0 || splits > 1;
  return team.async && team.async->traits().live && !ordered;
}

Optimizer RunConfig::optimizer_of(const TeamConfig& team) const {
  return is_live(team) ? make_hogwild_sgd(optimizer.weight_decay) : optimizer;
}

EngineOptions RunConfig::engine_options(const TeamConfig& team, const BatchShape& shape) const {
  EngineOptions engine{team.arrangement.learners, team.threads, shape,
                       optimizer_of(team),        clip_norm,    seed};
  engine.pace = pace;
  engine.world = world();
  for (const WorkerConfig& worker : team.workers) {
    const auto nodes = static_cast<size_t>(worker.nodes());
    engine.away.insert(engine.away.end(), nodes, away_device(worker));
  }
  return engine;
}

std::unique_ptr<Engine> RunConfig::engine(Models models, const TeamConfig& team,
                                          const BatchShape& shape, int64_t samples) const {
  const EngineOptions o = engine_options(team, shape);
  if (!team.async) return std::make_unique<SynchronousEngine>(*models[0], team.sync, o);
  AsyncSettings settings = node_settings(options, o.learners);
  if (team.workers.empty()) {
    return std::make_unique<AsyncEngine>(*models[0], team.async, std::move(settings), o);
  }
  std::vector<CompiledModel*> by_node;
  for (size_t w = 0; w < models.size(); ++w) {
    by_node.insert(by_node.end(), static_cast<size_t>(team.workers[w].nodes()), models[w]);
    settings.workers.push_back(node_worker(team.workers[w], *team.async, batch));
  }
  settings.round = round_of(settings.workers, *team.async);
  settings.samples = samples;
  settings.rate_exponent = rate_exponent(options);
  settings.rate_size = static_cast<double>(options.batch) / static_cast<double>(batch);
  return std::make_unique<AsyncEngine>(by_node, team.async, std::move(settings), o);
}

LearnerMemory RunConfig::memory(Models models, const TeamConfig& team,
                                const BatchShape& shape) const {
  EngineOptions o = engine_options(team, shape);
  if (!team.async) return memory_of(*models[0], team.sync.get(), o);
  if (team.workers.empty()) return memory_of(*models[0], *team.async, o);
  LearnerMemory all;
  double arenas = 0, bound = 0;
  std::map<std::string, double> away;
  for (size_t w = 0; w < models.size(); ++w) {
    o.batch.sizes = node_worker(team.workers[w], *team.async, batch).rows;
    const LearnerMemory own = memory_of(*models[w], *team.async, o);
    const int nodes = team.workers[w].nodes();
    // Each node's programs are bound on its own thread.
    bound += nodes * own.bound / (own.learners * own.workers);
    if (team.workers[w].is_away()) {  // there weights, a gradient and states, and here once more
      arenas += own.evaluated;
      away[device_name(team.workers[w].device, 0)] += own.arena + 2 * own.evaluated + own.frozen;
    } else {
      arenas += nodes * own.arena;
      all = own;
    }
  }
  all.away = std::move(away);
  all.arena = arenas / all.workers;
  all.bound = bound;
  return all;
}

int64_t RunConfig::bn_images(const TeamConfig& team, bool states) const {
  constexpr int64_t kImages = 2048;
  if (options.bn_images.value_or(0) > 0 && !states) {
    fail_usage("`bn-images` {}: the net has no batch norm that learns; leave it out",
               *options.bn_images);
  }
  const bool lags = team.async || (team.sync && team.sync->traits().lags);
  return options.bn_images.value_or(lags && states ? kImages : 0);
}

DType used_precision(const TrainOptions& o) {
  return computed_precision(device_list(o.device).kind,
                            o.precision == "bf16" ? DType::bf16 : DType::f32);
}

std::string_view precision_name(const TrainOptions& o) {
  return o.precision == "tf32" ? "tf32" : name_of(used_precision(o));
}

}  // namespace crossbow
