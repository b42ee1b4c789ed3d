#include "learner/engine.h"

#include <algorithm>
#include <cassert>
#include <optional>

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

std::vector<Device*> find_devices(const std::string& kind, int count) {
  std::vector<Device*> devices;
  for (int d = 0; d < count; ++d) devices.push_back(&find_device(kind, d));
  return devices;
}

}  // namespace

Engine::Engine(CompiledModel& model, std::unique_ptr<const SyncAlgorithm> sync,
               const EngineOptions& options)
    : options_(options),
      layout_(model.parameters()),
      devices_(find_devices(model.options().device, options.threads.devices)),
      sync_(std::move(sync)),
      scheduler_(options.threads.devices, options.learners, options.threads.workers),
      flights_(static_cast<size_t>(options.threads.all_workers())),
      landed_(std::make_unique<std::atomic<int64_t>[]>(
          static_cast<size_t>(options.threads.devices * options.learners))),
      snapshot_(*layout_, device()),
      workers_(options.threads) {
  if (sync_ && devices_.size() > 1) {
    comm_ = std::make_unique<LocalGroup>(devices_, layout_->parameter_elements, layout_->dtype,
                                         [this] { scheduler_.notify(); });
  }
  std::vector<std::optional<Workspace>> workspaces(flights_.size());
  workers_.run([&](int w) {
    const auto at = static_cast<size_t>(w);
    Device& device = *devices_[static_cast<size_t>(device_of_worker(w))];
    workspaces[at].emplace(model.make_workspace(device));
    for (Flight& flight : flights_[at]) {
      flight.done = device.make_event();
      flight.losses =
          device.allocate_pinned(static_cast<size_t>(options_.batch.splits) * sizeof(float));
    }
  });
  for (auto& workspace : workspaces) workspaces_.push_back(std::move(*workspace));
  for (int d = 0; d < options.threads.devices; ++d) {
    workers_.run([&](int w) {
      if (w == d * options.threads.workers) make_device(model, d);
    });
  }
  for (int w = 0; sync_ && w < workers_.count(); ++w) {
    scratch_.emplace_back(*central_of(device_of_worker(w)), options.learners);
  }
}

void Engine::make_device(CompiledModel& model, int index) {
  Device& device = *devices_[static_cast<size_t>(index)];
  if (sync_) {
    centrals_.push_back(std::make_unique<Central>(
        sync_, *layout_, options_.sgd.clip_norm,
        Central::Place{device, index, comm_ ? &comm_->rank(index) : nullptr}));
  }
  const LearnerPlan plan = plan_of(options_, central_of(index));
  for (int n = 0; n < options_.learners; ++n) {
    const int j = learners();
    std::vector<const Workspace*> workspaces;
    for (int w = 0; w < workers_.count(); ++w) {
      workspaces.push_back(scheduler_.may_run(w, j) ? &workspaces_[static_cast<size_t>(w)]
                                                    : nullptr);
    }
    learners_.push_back(std::make_unique<Learner>(model, plan, device, workspaces));
    if (index > 0 && !device.is_host()) {
      gathered_.push_back(this->device().allocate(snapshot_.states.size()));
    }
  }
}

void Engine::start_from(const Replica& model) {
  const Buffer zeros(model.parameters.size());
  const auto give = [](Device& device, std::byte* to, const Buffer& from) {
    if (to) device.copy_now(to, from.data(), from.size());
  };
  for (int j = 0; j < learners(); ++j) {
    Device& device = *devices_[static_cast<size_t>(device_of(j))];
    for (int side : {0, 1}) give(device, learner(j).weights(side), model.parameters);
    give(device, learner(j).states(), model.states);
    give(device, learner(j).momentum(), zeros);
  }
  for (size_t d = 0; d < centrals_.size(); ++d) {
    for (int side : {0, 1}) give(*devices_[d], centrals_[d]->z(side), model.parameters);
  }
}

void Engine::resume(int64_t exchanges, int64_t since_exchange) {
  for (size_t d = 0; d < centrals_.size(); ++d) {
    centrals_[d]->restore(exchanges, since_exchange);
    const auto from = centrals_[0]->state(), to = centrals_[d]->state();
    for (size_t i = 0; d > 0 && i < to.size(); ++i) {
      devices_[d]->copy_now(to[i], from[i], snapshot_.parameters.size());
    }
  }
}

std::vector<EngineBuffer> Engine::buffers() const {
  using Kind = EngineBuffer::Kind;
  std::vector<EngineBuffer> all;
  const auto add = [&](Kind kind, size_t index, std::byte* data, Device* device) {
    if (data) all.push_back({kind, static_cast<int64_t>(index), data, device});
  };
  for (size_t j = 0; j < learners_.size(); ++j) {
    const Learner& learner = *learners_[j];
    Device* const device = devices_[static_cast<size_t>(device_of(static_cast<int>(j)))];
    const bool own = sync_ && !sync_->traits().averages_gradients;
    if (own) add(Kind::weights, j, learner.weights(side()), device);
    add(Kind::momentum, j, learner.momentum(), device);
    if (learners_.size() > 1) add(Kind::states, j, learner.states(), device);
  }
  if (sync_) {
    const std::vector<std::byte*> state = central()->state();
    for (size_t i = 0; i < state.size(); ++i) add(Kind::central, i, state[i], devices_[0]);
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
    const auto d = static_cast<size_t>(device_of(j));
    devices_[d]->copy_now(learner(j).weights(side()), centrals_[d]->z(side()),
                          snapshot_.parameters.size());
  }
}

Replica& Engine::snapshot() {
  const std::byte* weights = sync_ ? central()->z(side()) : learners_[0]->weights(0);
  const std::vector<double> shares(learners_.size(), 1 / static_cast<double>(learners_.size()));
  // On a worker: this thread must not have an OpenMP team of its own (see Workers).
  workers_.run([&](int worker) {
    if (worker > 0) return;
    Queue& queue = workspaces_[0].queue();
    queue.copy(snapshot_.parameters.data(), weights, snapshot_.parameters.size());
    std::vector<const void*> states;
    for (const auto& learner : learners_) states.push_back(learner->states());
    const size_t here = states.size() - gathered_.size();
    for (size_t i = 0; i < gathered_.size(); ++i) {
      queue.copy(gathered_[i].data(), states[here + i], gathered_[i].size());
      states[here + i] = gathered_[i].data();
    }
    if (layout_->state_elements > 0) {
      queue.math(layout_->dtype)
          .combine(shares, states, snapshot_.states.data(), layout_->state_elements);
    }
    queue.finish();
  });
  return snapshot_;
}

std::span<const Workspace> Engine::evaluation_workspaces() const {
  const std::span<const Workspace> all = workspaces_;
  return device().is_host() ? all : all.first(static_cast<size_t>(options_.threads.workers));
}

int64_t Engine::batches_done() const {
  int64_t iterations = segment_.batches;
  for (int j = 0; j < learners(); ++j) {
    iterations =
        std::min(iterations, landed_[static_cast<size_t>(j)].load(std::memory_order_acquire));
  }
  return std::min(iterations * learners(), segment_.batches);
}

int64_t Engine::run(const Segment& segment) {
  segment_ = segment;
  const int64_t k = learners();
  scheduler_.start((segment.batches + k - 1) / k, segment.stop);
  for (int j = 0; j < learners(); ++j) landed_[static_cast<size_t>(j)] = 0;
  for (int d = 0; sync_ && d < options_.threads.devices; ++d) {
    central_of(d)->start(segment.after_first_drop,
                         [this, d](int64_t i, ExchangeInput& input) { describe(d, i, input); });
  }
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
  const auto at = static_cast<size_t>(worker);
  try {
    while (const auto task = scheduler_.claim(worker)) {
      if (!step(worker, *task)) return abandon(worker);
      scheduler_.finish(*task);
    }
    for (Flight& flight : flights_[at]) land(flight);
    if (Central* central = central_of(device_of_worker(worker))) {
      Queue& queue = workspaces_[at].queue();
      central->complete(central->exchanges_before(scheduler_.begun()), scheduler_, scratch_[at],
                        queue);
      queue.finish();
    }
  } catch (...) {
    give_up();
    abandon(worker);
  }
}

void Engine::land(Flight& flight) {
  if (flight.learner < 0) return;
  flight.done->finish();
  const auto j = static_cast<size_t>(std::exchange(flight.learner, -1));
  if (flight.batch) {
    const auto parts = static_cast<size_t>(options_.batch.splits);
    segment_.losses[static_cast<size_t>(flight.index - segment_.first_batch)] = static_cast<float>(
        learners_[j]->mean_loss({flight.losses.as<float>(), parts}, flight.batch->rows));
    segment_.source->release(*std::exchange(flight.batch, nullptr));
  }
  landed_[j].store(flight.iteration + 1, std::memory_order_release);
}

void Engine::abandon(int worker) {
  const auto at = static_cast<size_t>(worker);
  try {
    workspaces_[at].queue().finish();
  } catch (...) {
    give_up();  // keeps the first error
  }
  for (Flight& flight : flights_[at]) {
    flight.learner = -1;
    if (flight.batch) segment_.source->release(*std::exchange(flight.batch, nullptr));
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
  const auto at = static_cast<size_t>(worker);
  Learner& learner = *learners_[static_cast<size_t>(j)];
  Queue& queue = workspaces_[at].queue();
  Central* const central = central_of(device_of_worker(worker));
  const bool overlaps = central && central->traits().overlaps;
  const bool exchange = central && central->exchanges_at(i);
  const int64_t before = central ? central->exchanges_before(i) : 0;
  bool alive = true;
  const auto wait_for_exchanges = [&] {
    alive = central->complete(before, scheduler_, scratch_[at], queue);
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
  // On the host the last flight has landed, and so will this one.
  const bool host = devices_[0]->is_host();
  Flight& flight = flights_[at][host ? 0 : static_cast<size_t>(flights_[at][0].learner >= 0)];
  flight.index = batch_of(i, j);
  flight.iteration = i;
  if (rows_of(flight.index) == 0) {
    if (before_update()) learner.idle_step(worker, pull, route);
  } else {
    const data::Batch& batch = segment_.source->acquire(flight.index);
    flight.batch = &batch;
    Step step;
    step.inputs = {batch.images, batch.labels};
    step.seed = options_.seed;
    step.epoch = static_cast<uint32_t>(segment_.epoch);
    step.first_sample = static_cast<uint64_t>(flight.index * options_.batch.rows);
    const double rate = segment_.rate(batch_of(i, 0));
    learner.step(worker, step, batch.rows, rate, pull, route,
                 {flight.losses.as<float>(), static_cast<size_t>(options_.batch.splits)},
                 before_update);
  }
  if (!alive) return false;
  queue.mark(*flight.done);
  flight.learner = j;
  for (Flight& other : flights_[at]) {
    if (host || &other != &flight) land(other);
  }
  return true;
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
    input.made[at] = &learner.done();
    input.terms[at] = gradients ? learner.gradients() : learner.weights(side);
    input.weights[at] = learner.weights(side);
    input.factors[at] = gradients ? static_cast<double>(rows_of(batch_of(iteration, j))) /
                                        static_cast<double>(all_rows)
                                  : 1.0 / learners();
  }
}

}  // namespace crossbow
