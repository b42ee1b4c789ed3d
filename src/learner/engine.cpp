#include "learner/engine.h"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace crossbow {
namespace {

LearnerPlan plan_of(const EngineOptions& options, const Central* central) {
  LearnerPlan plan{options.batch, options.sgd};
  if (!central) return plan;
  if (central->traits().averages_gradients) plan.shared_weights = central->z(0);
  if (central->traits().overlaps) {
    plan.central = {central->z(0), central->z(1)};
    plan.stays = central->sync().period(false) > 1 || central->sync().period(true) > 1;
  }
  return plan;
}

/// For what is evaluated and saved, which has no momentum.
Replica model_in(const ParameterLayout& layout) {
  Replica replica(layout, /*with_gradients=*/false);
  replica.momentum = {};
  return replica;
}

void copy_bytes(std::byte* to, const std::byte* from, size_t bytes) {
  if (to && from) std::memcpy(to, from, bytes);
}

}  // namespace

Engine::Engine(CompiledModel& model, std::unique_ptr<const SyncAlgorithm> sync,
               const EngineOptions& options)
    : options_(options),
      layout_(model.parameters()),
      math_(vector_math(model.options().device, layout_->dtype)),
      sync_(std::move(sync)),
      scheduler_(options.threads.devices, options.learners, options.threads.workers),
      snapshot_(model_in(*layout_)),
      workers_(options.threads) {
  const int devices = options.threads.devices;
  if (sync_ && devices > 1) {
    comm_ = std::make_unique<LocalGroup>(devices, layout_->parameter_elements,
                                         static_cast<int64_t>(size_of(layout_->dtype)), math_,
                                         [this] { scheduler_.notify(); });
  }
  arenas_.resize(static_cast<size_t>(workers_.count()));
  workers_.run([&](int w) { arenas_[static_cast<size_t>(w)] = Buffer(model.arena_bytes()); });
  for (int d = 0; d < devices; ++d) {
    workers_.run([&](int w) {
      if (w == d * options.threads.workers) make_device(model, d);
    });
  }
  for (int w = 0; sync_ && w < workers_.count(); ++w) {
    scratch_.emplace_back(*central_of(device_of_worker(w)), options.learners);
  }
}

void Engine::make_device(CompiledModel& model, int device) {
  if (sync_) {
    const Central::Place place{device, comm_ ? &comm_->rank(device) : nullptr};
    centrals_.push_back(
        std::make_unique<Central>(sync_, *layout_, math_, options_.sgd.clip_norm, place));
  }
  const LearnerPlan plan = plan_of(options_, central_of(device));
  for (int n = 0; n < options_.learners; ++n) {
    const int j = learners();
    std::vector<const Buffer*> arenas;
    for (int w = 0; w < workers_.count(); ++w) {
      arenas.push_back(scheduler_.may_run(w, j) ? &arenas_[static_cast<size_t>(w)] : nullptr);
    }
    learners_.push_back(std::make_unique<Learner>(model, plan, arenas));
  }
}

void Engine::start_from(const Replica& model) {
  for (const auto& learner : learners_) {
    for (int side : {0, 1}) {
      copy_bytes(learner->weights(side), model.parameters.data(), model.parameters.size());
    }
    copy_bytes(learner->states(), model.states.data(), model.states.size());
    if (learner->momentum()) std::memset(learner->momentum(), 0, model.parameters.size());
  }
  for (const auto& central : centrals_) {
    for (int side : {0, 1}) {
      copy_bytes(central->z(side), model.parameters.data(), model.parameters.size());
    }
  }
}

void Engine::resume(int64_t exchanges, int64_t since_exchange) {
  for (const auto& central : centrals_) {
    central->restore(exchanges, since_exchange);
    const auto from = centrals_[0]->state(), to = central->state();
    for (size_t i = 0; central != centrals_[0] && i < to.size(); ++i) {
      copy_bytes(to[i], from[i], snapshot_.parameters.size());
    }
  }
}

std::vector<EngineBuffer> Engine::buffers() const {
  using Kind = EngineBuffer::Kind;
  std::vector<EngineBuffer> all;
  const auto add = [&](Kind kind, size_t index, std::byte* data) {
    if (data) all.push_back({kind, static_cast<int64_t>(index), data});
  };
  for (size_t j = 0; j < learners_.size(); ++j) {
    const Learner& learner = *learners_[j];
    const bool own = sync_ && !sync_->traits().averages_gradients;
    if (own) add(Kind::weights, j, learner.weights(side()));
    add(Kind::momentum, j, learner.momentum());
    if (learners_.size() > 1) add(Kind::states, j, learner.states());
  }
  if (sync_) {
    const std::vector<std::byte*> state = central()->state();
    for (size_t i = 0; i < state.size(); ++i) add(Kind::central, i, state[i]);
  }
  return all;
}

std::pair<double, double> Engine::sync_seconds() const {
  std::pair<double, double> sum;
  for (const auto& central : centrals_) {
    sum.first += central->working_seconds();
    sum.second += central->waiting_seconds();
  }
  return sum;
}

void Engine::restart() {
  for (int j = 0; j < learners(); ++j) {
    const Central& central = *central_of(j / options_.learners);
    copy_bytes(learner(j).weights(side()), central.z(side()), snapshot_.parameters.size());
  }
}

Replica& Engine::snapshot() {
  const std::byte* weights = sync_ ? central()->z(side()) : learners_[0]->weights(0);
  copy_bytes(snapshot_.parameters.data(), weights, snapshot_.parameters.size());
  const std::vector<double> shares(learners_.size(), 1 / static_cast<double>(learners_.size()));
  std::vector<const void*> states;
  for (const auto& learner : learners_) states.push_back(learner->states());
  // On a worker: this thread must not have an OpenMP team of its own (see Workers).
  workers_.run([&](int worker) {
    if (worker > 0 || layout_->state_elements == 0) return;
    math_.combine(shares, states, snapshot_.states.data(), layout_->state_elements);
  });
  return snapshot_;
}

int64_t Engine::run(const Segment& segment) {
  segment_ = segment;
  const int64_t k = learners();
  scheduler_.start((segment.batches + k - 1) / k, segment.stop);
  for (int d = 0; sync_ && d < options_.threads.devices; ++d) {
    central_of(d)->start(segment.after_first_drop,
                         [this, d](int64_t i, ExchangeInput& input) { describe(d, i, input); });
  }
  const auto batches_done = [&] { return std::min(scheduler_.completed() * k, segment.batches); };
  workers_.start([this](int worker) { work(worker); });
  try {
    while (!workers_.finished(std::chrono::milliseconds(20))) segment.progress(batches_done());
    if (!scheduler_.failed()) segment.progress(batches_done());
  } catch (...) {
    give_up();
    while (!workers_.finished(std::chrono::seconds(1))) {
    }
  }
  scheduler_.check();
  for (const auto& central : centrals_) central->finish(scheduler_.begun());
  return batches_done();
}

void Engine::work(int worker) {
  try {
    while (const auto task = scheduler_.claim(worker)) {
      if (!step(worker, *task)) return;
      scheduler_.finish(*task);
    }
    if (Central* central = central_of(device_of_worker(worker))) {
      central->complete(central->exchanges_before(scheduler_.begun()), scheduler_,
                        scratch_[static_cast<size_t>(worker)]);
    }
  } catch (...) {
    give_up();
  }
}

void Engine::give_up() {
  scheduler_.fail(std::current_exception());
  segment_.source->cancel();
}

int64_t Engine::rows_of(int64_t batch) const {
  assert(batch >= segment_.first_batch);
  if (batch >= segment_.first_batch + segment_.batches) return 0;
  const bool last = batch == segment_.epoch_batches - 1 && options_.batch.last_rows > 0;
  return last ? options_.batch.last_rows : options_.batch.rows;
}

bool Engine::step(int worker, const Scheduler::Task& task) {
  const auto [j, i] = task;
  Learner& learner = *learners_[static_cast<size_t>(j)];
  Central* const central = central_of(device_of_worker(worker));
  const bool overlaps = central && central->traits().overlaps;
  const bool exchange = central && central->exchanges_at(i);
  const int64_t before = central ? central->exchanges_before(i) : 0;
  bool alive = true;
  const auto wait_for_exchanges = [&] {
    alive = central->complete(before, scheduler_, scratch_[static_cast<size_t>(worker)]);
  };
  if (central && !overlaps) wait_for_exchanges();
  if (!alive) return false;

  const auto before_update = [&] {
    if (overlaps && exchange) wait_for_exchanges();
    return alive;
  };
  Learner::Route route;
  if (overlaps) route = {central->side(before), central->side(before + (exchange ? 1 : 0))};
  const double pull = overlaps && exchange ? central->sync().pull() : 0;
  const int64_t index = batch_of(i, j);
  if (rows_of(index) == 0) {
    if (before_update()) learner.idle_step(pull, route);
    return alive;
  }
  const data::Batch& batch = segment_.source->acquire(index);
  Step step;
  step.inputs = {batch.images, batch.labels};
  step.seed = options_.seed;
  step.epoch = static_cast<uint32_t>(segment_.epoch);
  step.first_sample = static_cast<uint64_t>(index * options_.batch.rows);
  const double rate = segment_.rate(batch_of(i, 0));
  segment_.losses[static_cast<size_t>(index - segment_.first_batch)] =
      learner.step(worker, step, batch.rows, rate, pull, route, before_update);
  segment_.source->release(batch);
  return alive;
}

void Engine::describe(int device, int64_t iteration, ExchangeInput& input) const {
  const bool gradients = sync_->traits().averages_gradients;
  const Central& central = *central_of(device);
  const int side = central.side(central.exchanges_before(iteration));
  int64_t all_rows = 0;
  for (int j = 0; j < learners(); ++j) all_rows += rows_of(batch_of(iteration, j));
  input.lr = segment_.rate(batch_of(iteration, 0));
  for (int n = 0; n < options_.learners; ++n) {
    const int j = device * options_.learners + n;
    const Learner& learner = *learners_[static_cast<size_t>(j)];
    const auto at = static_cast<size_t>(n);
    input.terms[at] = gradients ? learner.gradients() : learner.weights(side);
    input.weights[at] = learner.weights(side);
    input.factors[at] = gradients ? static_cast<double>(rows_of(batch_of(iteration, j))) /
                                        static_cast<double>(all_rows)
                                  : 1.0 / learners();
  }
}

}  // namespace crossbow
