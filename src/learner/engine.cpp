#include "learner/engine.h"

#include <algorithm>
#include <cassert>
#include <optional>

namespace crossbow {
namespace {

LearnerPlan plan_of(const EngineOptions& options, const SyncAlgorithm* sync,
                    const Central* central) {
  LearnerPlan plan{options.batch, options.optimizer, options.clip_norm};
  if (!sync) return plan;
  if (sync->traits().averages_gradients) plan.shared_weights = central->z(0);
  if (sync->traits().overlaps) {
    plan.central = {central->z(0), central->z(1)};
    plan.stays = sync->period(false) > 1 || sync->period(true) > 1;
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
      lockstep_(sync_ && sync_->traits().overlaps),
      scheduler_(options.threads.devices, options.learners, options.threads.workers),
      landed_(std::make_unique<std::atomic<int64_t>[]>(
          static_cast<size_t>(options.threads.devices * options.learners))),
      snapshot_(*layout_, device()),
      workers_(options.threads) {
  if (sync_ && devices_.size() > 1) {
    comm_ = std::make_unique<LocalGroup>(devices_, layout_->parameter_elements, layout_->dtype,
                                         [this] { scheduler_.notify(); });
  }
  std::vector<std::optional<Workspace>> workspaces(static_cast<size_t>(workers_.count()));
  workers_.run([&](int w) {
    Device& device = *devices_[static_cast<size_t>(device_of_worker(w))];
    workspaces[static_cast<size_t>(w)].emplace(model.make_workspace(device));
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
        sync_, lockstep_, *layout_, options_.optimizer, options_.clip_norm,
        Central::Place{device, index, comm_ ? &comm_->rank(index) : nullptr}));
  }
  const LearnerPlan plan = plan_of(options_, sync_.get(), central_of(index));
  for (int n = 0; n < options_.learners; ++n) {
    const int j = learners();
    std::vector<const Workspace*> workspaces;
    for (int w = 0; w < workers_.count(); ++w) {
      workspaces.push_back(scheduler_.may_run(w, j) ? &workspaces_[static_cast<size_t>(w)]
                                                    : nullptr);
    }
    learners_.push_back(std::make_unique<Learner>(model, plan, device, workspaces));
    for (Flight& flight : flights_.emplace_back()) {
      flight.done = device.make_event();
      flight.losses =
          device.allocate_pinned(static_cast<size_t>(options_.batch.splits) * sizeof(float));
    }
    if (index > 0 && !device.is_host()) {
      gathered_.push_back(this->device().allocate(snapshot_.states.size()));
    }
  }
}

void Engine::start_from(const Replica& model) {
  const auto give = [](Device& device, std::byte* to, const Buffer& from) {
    if (to) device.copy_now(to, from.data(), from.size());
  };
  for (int j = 0; j < learners(); ++j) {
    Device& device = *devices_[static_cast<size_t>(device_of(j))];
    for (int side : {0, 1}) give(device, learner(j).weights(side), model.parameters);
    give(device, learner(j).states(), model.states);
    for (const Buffer& slot : learner(j).slots()) device.zero_now(slot.data(), slot.size());
  }
  for (size_t d = 0; d < centrals_.size(); ++d) {
    for (int side : {0, 1}) give(*devices_[d], centrals_[d]->z(side), model.parameters);
  }
}

void Engine::resume(int64_t exchanges, int64_t since_exchange) {
  if (sync_) lockstep_.restore(exchanges, since_exchange);
  for (size_t d = 1; d < centrals_.size(); ++d) {
    const auto from = centrals_[0]->state(), to = centrals_[d]->state();
    for (size_t i = 0; i < to.size(); ++i) {
      devices_[d]->copy_now(to[i], from[i], snapshot_.parameters.size());
    }
    const auto slots = centrals_[0]->slots(), own = centrals_[d]->slots();
    for (size_t i = 0; i < own.size(); ++i) {
      devices_[d]->copy_now(own[i].data(), slots[i].data(), own[i].size());
    }
  }
}

std::vector<EngineBuffer> Engine::buffers() const {
  using Kind = EngineBuffer::Kind;
  std::vector<EngineBuffer> all;
  const auto add = [&](Kind kind, size_t index, std::byte* data, Device* device,
                       const std::string& slot = {}) {
    if (data) all.push_back({kind, static_cast<int64_t>(index), data, device, slot});
  };
  const auto add_slots = [&](size_t index, std::span<const Buffer> slots, Device* device) {
    for (size_t i = 0; i < slots.size(); ++i) {
      add(Kind::slot, index, slots[i].data(), device, options_.optimizer.slots[i]);
    }
  };
  for (size_t j = 0; j < learners_.size(); ++j) {
    const Learner& learner = *learners_[j];
    Device* const device = devices_[static_cast<size_t>(device_of(static_cast<int>(j)))];
    const bool own = sync_ && !sync_->traits().averages_gradients;
    if (own) add(Kind::weights, j, learner.weights(side()), device);
    add_slots(j, learner.slots(), device);
    if (learners_.size() > 1) add(Kind::states, j, learner.states(), device);
  }
  if (sync_) {
    add_slots(0, central()->slots(), devices_[0]);
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
  if (sync_) lockstep_.start(sync_->period(segment.after_first_drop));
  for (int d = 0; sync_ && d < options_.threads.devices; ++d) {
    central_of(d)->start([this, d](int64_t i, ExchangeInput& input) { describe(d, i, input); });
  }
  workers_.start([this](int worker) { work(worker); });
  try {
    while (!workers_.finished(std::chrono::milliseconds(20))) segment.progress(batches_done());
    land_all();
    if (!scheduler_.failed()) segment.progress(batches_done());
  } catch (...) {
    give_up();
    while (!workers_.finished(std::chrono::seconds(1))) {
    }
    land_all();
  }
  scheduler_.check();
  if (sync_) {
    const int64_t exchanges = lockstep_.exchanges_before(scheduler_.begun());
    for (const auto& central : centrals_) central->finish(exchanges);
    lockstep_.finish(scheduler_.begun());
  }
  const int64_t done = batches_done();
  const bool dropped = segment.ends_at_drop && done == segment.batches;
  if (sync_ && sync_->traits().restarts && dropped) restart();
  return done;
}

void Engine::work(int worker) {
  const auto at = static_cast<size_t>(worker);
  Queue& queue = workspaces_[at].queue();
  try {
    bool alive = true;
    while (const auto task = alive ? scheduler_.claim(worker) : std::nullopt) {
      alive = step(worker, *task);
      if (alive) scheduler_.finish(*task);
    }
    if (Central* central = alive ? central_of(device_of_worker(worker)) : nullptr) {
      central->complete(lockstep_.exchanges_before(scheduler_.begun()), scheduler_, scratch_[at],
                        queue);
    }
    queue.finish();
  } catch (...) {
    give_up();
    queue.drain();
  }
}

void Engine::land(int learner, Flight& flight) {
  if (flight.iteration < 0) return;
  flight.done->finish();
  if (flight.batch) {
    const auto parts = static_cast<size_t>(options_.batch.splits);
    segment_.losses[static_cast<size_t>(flight.index - segment_.first_batch)] =
        static_cast<float>(learners_[static_cast<size_t>(learner)]->mean_loss(
            {flight.losses.as<float>(), parts}, flight.batch->rows));
    segment_.source->release(*std::exchange(flight.batch, nullptr));
  }
  landed_[static_cast<size_t>(learner)].store(flight.iteration + 1, std::memory_order_release);
  flight.iteration = -1;
}

void Engine::land_all() {
  for (const auto& central : centrals_) central->drain();
  for (int j = 0; j < learners(); ++j) {
    auto& [a, b] = flights_[static_cast<size_t>(j)];
    const bool in_order = a.iteration < b.iteration;
    for (Flight* flight : {in_order ? &a : &b, in_order ? &b : &a}) {
      if (!scheduler_.failed()) land(j, *flight);
      if (flight->batch) segment_.source->release(*std::exchange(flight->batch, nullptr));
      flight->iteration = -1;
    }
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

Learner::Route Engine::route_of(int64_t iteration) const {
  if (!sync_) return {};
  const int64_t before = lockstep_.exchanges_before(iteration);
  return {central()->side(before), central()->side(before + lockstep_.exchanges_at(iteration))};
}

double Engine::pull_of(int64_t iteration) const {
  const bool pulls = sync_ && lockstep_.overlaps() && lockstep_.exchanges_at(iteration);
  return pulls ? sync_->pull() : 0;
}

bool Engine::step(int worker, const Scheduler::Task& task) {
  const int j = task.learner;
  const int64_t i = task.iteration;
  const auto at = static_cast<size_t>(worker);
  Learner& learner = *learners_[static_cast<size_t>(j)];
  Queue& queue = workspaces_[at].queue();
  Central* const central = central_of(device_of_worker(worker));
  bool alive = true;
  const auto wait_for = [&](int64_t exchanges) {
    if (exchanges > 0) alive = central->complete(exchanges, scheduler_, scratch_[at], queue);
    return alive;
  };
  if (central && !wait_for(lockstep_.needed_to_begin(i))) return false;

  const auto before_update = [&] { return !central || wait_for(lockstep_.needed_to_update(i)); };
  const Learner::Route route = route_of(i);
  const double pull = pull_of(i);
  auto& [even, odd] = flights_[static_cast<size_t>(j)];
  Flight& flight = i % 2 == 0 ? even : odd;
  flight.index = batch_of(i, j);
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
  flight.iteration = i;
  land(j, devices_[0]->is_host() ? flight : i % 2 == 0 ? odd : even);
  return true;
}

void Engine::describe(int device, int64_t iteration, ExchangeInput& input) const {
  const bool gradients = sync_->traits().averages_gradients;
  const int side = route_of(iteration).from;
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

void Engine::time_step(const Step& step, double lr, std::span<double> seconds) {
  learners_[0]->timed_step(0, step, lr, pull_of(0), route_of(0), seconds);
}

UpdateTraffic Engine::update_traffic() const {
  const auto slots = static_cast<double>(options_.optimizer.slots.size());
  const UpdateTraffic own{3 + 2 * slots, 2 + slots};
  if (!sync_) return own;
  const auto k = static_cast<double>(learners());
  const double share = 1.0 / static_cast<double>(sync_->period(false));
  if (lockstep_.overlaps()) {
    // The step reads z too and writes other weights than it reads; the exchange reads all weights,
    // z and the z before, and writes z.
    return {own.accesses + share * (1 + (k + 3) / k), own.arrays + 1 + 2 / k};
  }
  if (sync_->traits().averages_gradients) {
    // The step leaves its gradient, which the exchange reads besides what one learner's update
    // reads and writes.
    return {1 + (k + own.accesses - 1) / k, 1 + (own.arrays - 1) / k};
  }
  // The exchange reads all weights and writes them and z.
  return {own.accesses + share * (2 * k + 1) / k, own.arrays + 1 / k};
}

}  // namespace crossbow
