#include "learner/engine.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <numeric>
#include <optional>

namespace crossbow {

Engine::Engine(std::span<CompiledModel* const> models, const EngineOptions& options)
    : options_(options),
      layout_(models[0]->parameters()),
      devices_(find_devices(models[0]->options().device, options.threads.devices)),
      landed_(static_cast<size_t>(options.threads.devices * options.learners)),
      snapshot_(*layout_, device()),
      workers_(devices_, options.threads) {
  assert(!away(0));
  const auto evaluates = [&](int w) {
    return options.threads.threads_of(w) == models[0]->options().threads && !away(w);
  };
  while (evaluators_ < workers_.count() && evaluates(evaluators_)) ++evaluators_;
  std::vector<std::optional<Workspace>> workspaces(static_cast<size_t>(workers_.count()));
  workers_.run([&](int w) {
    const CompiledModel& model = *models[models.size() == 1 ? 0 : static_cast<size_t>(w)];
    Device& runs_on = away(w) ? *away(w) : device(device_of_worker(w));
    workspaces[static_cast<size_t>(w)].emplace(model.make_workspace(runs_on));
  });
  for (auto& workspace : workspaces) workspaces_.push_back(std::move(*workspace));
}

void Engine::on_each_device(const std::function<void(int)>& make) {
  for (int d = 0; d < options_.threads.devices; ++d) {
    workers_.run([&](int w) {
      if (w == d * options_.threads.workers) make(d);
    });
  }
}

void Engine::add_learner(CompiledModel& model, const LearnerSetup& setup, int index,
                         const std::function<bool(int, int)>& may_run) {
  const int j = learners();
  assert(device_of(j) == index);
  std::vector<const Workspace*> workspaces;
  for (int w = 0; w < workers_.count(); ++w) {
    workspaces.push_back(may_run(w, j) ? &workspaces_[static_cast<size_t>(w)] : nullptr);
  }
  Device& device = this->device(index);
  if (std::ssize(frozen_) < index) {
    frozen_.push_back(device.allocate_zeroed(snapshot_.frozen.size()));
  }
  LearnerSetup with_frozen = setup;
  with_frozen.frozen = frozen(index).data();
  learners_.push_back(std::make_unique<Learner>(model, with_frozen, device, workspaces));
  Device& runs_on = setup.away ? *setup.away : device;
  for (Flight& flight : flights_.emplace_back()) {
    flight.done = device.make_event();
    flight.losses =
        runs_on.allocate_pinned(static_cast<size_t>(options_.batch.parts()) * sizeof(float));
  }
  if (index > 0 && !device.is_host()) {
    gathered_.push_back(this->device().allocate(snapshot_.states.size()));
  }
}

void Engine::start_from(const Replica& model) {
  for (int d = 0; d < options_.threads.devices; ++d) {
    device(d).copy_now(frozen(d).data(), model.frozen.data(), model.frozen.size());
  }
  for (int j = 0; j < learners(); ++j) {
    Device& device = this->device(device_of(j));
    const Learner& learner = this->learner(j);
    for (int side : {0, 1}) {
      if (learner.weights(side)) {
        device.copy_now(learner.weights(side), model.parameters.data(), weight_bytes());
      }
    }
    learner.take_frozen();
    device.copy_now(learner.states(), model.states.data(), model.states.size());
    for (const Buffer& slot : learner.slots()) device.zero_now(slot.data(), slot.size());
  }
  noise_scale_ = {};
}

EngineState Engine::state() const {
  EngineState state{place(), buffers()};
  state.place.noise = noise_scale_;
  return state;
}

void Engine::restore(const Replica& model, const EnginePlace& place,
                     const std::function<void(std::vector<EngineBuffer>)>& fill) {
  start_from(model);
  fill(buffers());
  resume(place);
  noise_scale_ = place.noise;
}

Replica& Engine::snapshot() {
  std::vector<double> shares;
  for (int j = 0; j < learners(); ++j) shares.push_back(takes_part(j) ? 1 : 0);
  const double all = std::accumulate(shares.begin(), shares.end(), 0.0);
  for (double& share : shares) share /= all;
  const std::vector<Buffer> of_all_ranks = gather_states();
  const size_t k = of_all_ranks.size();
  if (k > 0) shares.assign(k, 1 / static_cast<double>(k));
  // On a worker: this thread must not have an OpenMP team of its own (see expect_host_team).
  workers_.run([&](int worker) {
    if (worker > 0) return;
    Queue& queue = this->queue(0);
    write_evaluated(queue, snapshot_.parameters.data());
    std::vector<const void*> states;
    for (const auto& learner : learners_) states.push_back(learner->states());
    const size_t here = states.size() - gathered_.size();
    for (size_t i = 0; i < gathered_.size(); ++i) {
      queue.copy(gathered_[i].data(), states[here + i], gathered_[i].size());
      states[here + i] = gathered_[i].data();
    }
    if (k > 0) states.clear();
    for (const Buffer& gathered : of_all_ranks) states.push_back(gathered.data());
    if (layout_->state_elements > 0) {
      queue.math(layout_->dtype)
          .combine(shares, states, snapshot_.states.data(), layout_->state_elements);
    }
    queue.finish();
  });
  return snapshot_;
}

/// Of a cluster's learners, in order; none of a process on its own.
std::vector<Buffer> Engine::gather_states() const {
  std::vector<Buffer> all;
  if (!options_.world || layout_->state_elements == 0) return all;
  const size_t bytes = snapshot_.states.size();
  std::vector<std::byte> own;
  for (const auto& learner : learners_) {
    own.insert(own.end(), learner->states(), learner->states() + bytes);
  }
  for (const std::vector<std::byte>& rank : options_.world->all_gather(own)) {
    for (size_t at = 0; at < rank.size(); at += bytes) {
      std::memcpy(all.emplace_back(bytes).data(), rank.data() + at, bytes);
    }
  }
  return all;
}

std::span<const Workspace> Engine::evaluation_workspaces() const {
  const std::span<const Workspace> all = workspaces_;
  return all.first(
      static_cast<size_t>(device().is_host() ? evaluators_ : options_.threads.workers));
}

int64_t Engine::run(const Segment& segment) {
  segment_ = segment;
  for (auto& landed : landed_) landed = 0;
  samples_done_ = 0;
  begin(segment_);
  workers_.start([this, queues = queues_of_thread()](int worker) {
    if (worker % queues > 0) return;
    try {
      work(worker);
      if (away(worker)) return;  // its steps are done, or have failed for good
      for (int w = worker; w < worker + queues; ++w) queue(w).finish();
    } catch (...) {
      give_up();
      for (int w = worker; w < worker + queues; ++w) queue(w).drain();
    }
  });
  try {
    while (!workers_.finished(std::chrono::milliseconds(20))) segment.progress(batches_done());
    land_all();
    if (!failed()) segment.progress(batches_done());
  } catch (...) {
    give_up();
    while (!workers_.finished(std::chrono::seconds(1))) {
    }
    land_all();
  }
  end(segment_);
  return batches_done();
}

void Engine::give_up() {
  fail(std::current_exception());
  segment_.source->cancel();
}

Engine::Flight& Engine::prepare(int learner, int64_t number, int64_t batch, Step& step) {
  if (rows_of(batch) == 0) return flight(learner, number);
  data::BatchSource& source = *segment_.source;
  const int64_t first_row = batch * options_.batch.rows;
  return prepare(learner, number, {&source.acquire(batch), &source, batch, 1, first_row}, step);
}

Engine::Flight& Engine::prepare(int learner, int64_t number, const Fetched& load, Step& step) {
  Flight& flight = this->flight(learner, number);
  flight.load = load;
  step.inputs = load.batch->fields;
  step.seed = options_.seed;
  step.epoch = static_cast<uint32_t>(segment_.epoch);
  step.first_sample = static_cast<uint64_t>(load.first_row);
  return flight;
}

void Engine::launch(Queue& queue, int learner, Flight& flight, int64_t number) {
  queue.mark(*flight.done);
  flight.number = number;
  if (device().is_host()) land(learner, flight);
}

void Engine::land(int learner, Flight& flight) {
  if (flight.number < 0) return;
  flight.done->finish();
  if (const Fetched& load = flight.load; load.batch) {
    const double loss = this->learner(learner).mean_loss(flight.part_losses(), load.batch->rows);
    std::fill_n(segment_.losses.begin() + (load.first - segment_.first_batch), load.count,
                static_cast<float>(loss));
    samples_done_.fetch_add(load.batch->rows, std::memory_order_relaxed);
    give_back_batch(flight);
  }
  landed_[static_cast<size_t>(learner)].store(flight.number + 1, std::memory_order_release);
  flight.number = -1;
}

/// At a segment's end: nothing is under way any more.
void Engine::land_all() {
  drain();
  for (int j = 0; j < learners(); ++j) {
    auto& [a, b] = flights_[static_cast<size_t>(j)];
    const bool in_order = a.number < b.number;
    for (Flight* flight : {in_order ? &a : &b, in_order ? &b : &a}) {
      if (!failed()) land(j, *flight);
      give_back_batch(*flight);
      flight->number = -1;
    }
  }
}

int64_t Engine::rows_of(int64_t batch) const {
  assert(batch >= segment_.first_batch);
  if (batch >= segment_.first_batch + segment_.batches) return 0;
  const bool last = batch == segment_.epoch_batches - 1 && options_.batch.last_rows > 0;
  return last ? options_.batch.last_rows : options_.batch.rows;
}

}  // namespace crossbow
