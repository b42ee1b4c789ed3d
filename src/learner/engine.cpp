#include "learner/engine.h"

#include <algorithm>
#include <cstring>

namespace crossbow {
namespace {

using std::chrono_literals::operator""ms;

std::unique_ptr<Central> make_central(std::unique_ptr<const SyncAlgorithm> sync,
                                      const ParameterLayout& layout, const VectorMath& math,
                                      double clip_norm) {
  if (!sync) return nullptr;
  return std::make_unique<Central>(std::move(sync), layout, math, clip_norm);
}

LearnerPlan plan_of(const EngineOptions& options, const Central* central) {
  LearnerPlan plan{options.rows, options.last_rows, options.sgd};
  if (!central) return plan;
  if (central->traits().averages_gradients) plan.shared_weights = central->z(0);
  if (central->traits().overlaps) {
    plan.central = {central->z(0), central->z(1)};
    plan.stays = central->sync().period(false) > 1 || central->sync().period(true) > 1;
  }
  return plan;
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
      central_(make_central(std::move(sync), *layout_, math_, options.sgd.clip_norm)),
      snapshot_(*layout_, /*with_gradients=*/false),
      scheduler_(options.learners, options.workers),
      workers_(scheduler_.workers(), model.options().threads) {
  for (int w = 0; w < workers_.count(); ++w) {
    arenas_.emplace_back(model.arena_bytes());
    if (central_) scratch_.emplace_back(*central_, options.learners);
  }
  const LearnerPlan plan = plan_of(options, central_.get());
  for (int j = 0; j < options.learners; ++j) {
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
  if (!central_) return;
  for (int side : {0, 1}) {
    copy_bytes(central_->z(side), model.parameters.data(), model.parameters.size());
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
    const bool own = central_ && !central_->traits().averages_gradients;
    if (own) add(Kind::weights, j, learner.weights(side()));
    add(Kind::momentum, j, learner.momentum());
    if (learners_.size() > 1) add(Kind::states, j, learner.states());
  }
  if (central_) {
    const std::vector<std::byte*> state = central_->state();
    for (size_t i = 0; i < state.size(); ++i) add(Kind::central, i, state[i]);
  }
  return all;
}

void Engine::restart() {
  for (const auto& learner : learners_) {
    copy_bytes(learner->weights(side()), central_->z(side()), snapshot_.parameters.size());
  }
}

const Replica& Engine::snapshot() {
  const std::byte* weights = central_ ? central_->z(side()) : learners_[0]->weights(0);
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
  const int64_t k = options_.learners;
  scheduler_.start((segment.batches + k - 1) / k, segment.stop);
  if (central_) {
    central_->start(segment.after_first_drop,
                    [this](int64_t i, ExchangeInput& input) { describe(i, input); });
  }
  const auto batches_done = [&] { return std::min(scheduler_.completed() * k, segment.batches); };
  workers_.start([this](int worker) { work(worker); });
  try {
    while (!workers_.finished(20ms)) segment.progress(batches_done());
    if (!scheduler_.failed()) segment.progress(batches_done());
  } catch (...) {
    scheduler_.fail(std::current_exception());
    while (!workers_.finished(1000ms)) {
    }
  }
  scheduler_.check();
  if (central_) central_->finish(scheduler_.begun());
  return batches_done();
}

void Engine::work(int worker) {
  try {
    while (const auto task = scheduler_.claim(worker)) {
      if (!step(worker, *task)) return;
      scheduler_.finish(*task);
    }
    if (central_) {
      central_->complete(central_->exchanges_before(scheduler_.begun()), scheduler_,
                         scratch_[static_cast<size_t>(worker)]);
    }
  } catch (...) {
    scheduler_.fail(std::current_exception());
  }
}

int64_t Engine::rows_of(int64_t batch) const {
  if (batch >= segment_.first_batch + segment_.batches) return 0;
  const bool last = batch == segment_.epoch_batches - 1 && options_.last_rows > 0;
  return last ? options_.last_rows : options_.rows;
}

bool Engine::step(int worker, const Scheduler::Task& task) {
  const auto [j, i] = task;
  Learner& learner = *learners_[static_cast<size_t>(j)];
  const bool overlaps = central_ && central_->traits().overlaps;
  const bool exchange = central_ && central_->exchanges_at(i);
  const int64_t before = central_ ? central_->exchanges_before(i) : 0;
  bool alive = true;
  const auto wait_for_exchanges = [&] {
    alive = central_->complete(before, scheduler_, scratch_[static_cast<size_t>(worker)]);
  };
  if (central_ && !overlaps) wait_for_exchanges();
  if (!alive) return false;

  const auto before_update = [&] {
    if (overlaps && exchange) wait_for_exchanges();
    return alive;
  };
  Learner::Route route;
  if (overlaps) route = {central_->side(before), central_->side(before + (exchange ? 1 : 0))};
  const double pull = overlaps && exchange ? central_->sync().pull() : 0;
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
  step.first_sample = static_cast<uint64_t>(index * options_.rows);
  const double rate = segment_.rate(batch_of(i, 0));
  segment_.losses[static_cast<size_t>(index - segment_.first_batch)] =
      learner.step(worker, step, batch.rows, rate, pull, route, before_update);
  segment_.source->release(batch);
  return alive;
}

void Engine::describe(int64_t iteration, ExchangeInput& input) const {
  const bool gradients = central_->traits().averages_gradients;
  const int side = central_->side(central_->exchanges_before(iteration));
  int64_t all_rows = 0;
  for (int j = 0; j < options_.learners; ++j) all_rows += rows_of(batch_of(iteration, j));
  input.lr = segment_.rate(batch_of(iteration, 0));
  for (int j = 0; j < options_.learners; ++j) {
    const Learner& learner = *learners_[static_cast<size_t>(j)];
    const auto at = static_cast<size_t>(j);
    input.terms[at] = gradients ? learner.gradients() : learner.weights(side);
    input.weights[at] = learner.weights(side);
    input.factors[at] = gradients ? static_cast<double>(rows_of(batch_of(iteration, j))) /
                                        static_cast<double>(all_rows)
                                  : 1.0 / options_.learners;
  }
}

}  // namespace crossbow
