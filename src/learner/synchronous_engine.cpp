#include "learner/synchronous_engine.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "learner/distance.h"
#include "learner/gradient_buckets.h"

namespace crossbow {

SynchronousEngine::SynchronousEngine(CompiledModel& model,
                                     std::shared_ptr<const SyncAlgorithm> sync,
                                     const EngineOptions& options)
    : Engine(std::array{&model}, options),
      sync_(std::move(sync)),
      lockstep_(sync_ ? sync_->traits().timing : Lockstep::Timing::after_step),
      scheduler_(options.threads.devices, options.learners, options.threads.workers),
      buckets_(buckets()) {
  std::vector<int64_t> parts;
  for (const ParameterLayout::Piece& bucket : buckets_) parts.push_back(bucket.elements);
  const auto notify = [this] { scheduler_.notify(); };
  if (options.world) {
    world_comm_ = options.world->make_comm(parts, layout().dtype, notify);
  } else if (sync_ && devices().size() > 1) {
    comm_ = std::make_unique<LocalGroup>(devices(), parts, layout().dtype, notify);
  }
  if (options.pace) {
    time_.emplace(options.threads.devices * options.learners, options.seed, *options.pace,
                  layout().trained() * static_cast<int64_t>(size_of(layout().dtype)));
  }
  const auto may_run = [this](int w, int j) { return scheduler_.may_run(w, j); };
  on_each_device([&](int d) {
    if (sync_) {
      centrals_.push_back(std::make_unique<Central>(
          sync_, lockstep_, layout(), options.optimizer, options.clip_norm,
          Central::Rank{device(d), d,
                        world_comm_ ? world_comm_.get()
                        : comm_     ? &comm_->rank(d)
                                    : nullptr,
                        buckets_, d == 0 && first_learner() == 0},
          options.learners, measured_noise()));
    }
    const LearnerSetup setup = setup_of(d);
    for (int n = 0; n < options.learners; ++n) add_learner(model, setup, d, may_run);
  });
  for (int w = 0; sync_ && w < workers().count(); ++w) {
    scratch_.emplace_back(*central_of(device_of_worker(w)), options.learners);
  }
}

std::vector<ParameterLayout::Piece> SynchronousEngine::buckets() const {
  const bool while_steps_run =
      options().world && averages_gradients() && device().is_host() && options().batch.parts() == 1;
  return while_steps_run ? gradient_buckets(layout()) : std::vector{layout().whole()};
}

LearnerSetup SynchronousEngine::setup_of(int device) const {
  LearnerSetup setup{options().batch, options().optimizer, options().clip_norm};
  for (size_t b = 0; b + 1 < buckets_.size(); ++b) {
    setup.gradient_cuts.push_back(buckets_[b].first);
  }
  const Central* const central = central_of(device);
  if (averages_gradients()) setup.shared_weights = central->z(0);
  if (lockstep_.two_sides()) {
    setup.pulls_to = {central->z(0), central->z(1)};
    setup.stays = sync_->may_stay();
  } else if (lockstep_.pulls_to_mean()) {
    setup.pulls_to = {central->mean(), nullptr};
  }
  return setup;
}

void SynchronousEngine::start_from(const Replica& model) {
  Engine::start_from(model);
  for (size_t d = 0; d < centrals_.size(); ++d) {
    const Central& central = *centrals_[d];
    for (std::byte* const to : {central.z(0), central.z(1), central.mean()}) {
      if (to) devices()[d]->copy_now(to, model.parameters.data(), weight_bytes());
    }
  }
}

/// Of a rank's learners some may be an exchange ahead of others, with weights on the other side.
void SynchronousEngine::salvage() {
  if (!sync_ || !scheduler_.failed() || std::exchange(salvaged_, true)) return;
  const Central& central = *centrals_.front();
  const int64_t exchanges = central.completed();
  for (int j = 0; j < learners(); ++j) {
    const Learner& learner = this->learner(j);
    const int from = central.side(lockstep_.exchanges_before(landed(j)));
    const int to = central.side(exchanges);
    if (from != to) device().copy_now(learner.weights(to), learner.weights(from), weight_bytes());
  }
  for (const auto& c : centrals_) c->finish(exchanges);
  lockstep_.restore(lockstep_.exchanges() + exchanges, 0, lockstep_.joined());
}

EnginePlace SynchronousEngine::place() const {
  EnginePlace place;
  place.exchanges = lockstep_.exchanges();
  place.since_exchange = lockstep_.since_exchange();
  place.joined = lockstep_.joined();
  if (time_) {
    place.virtual_time = time_->now();
    place.virtual_steps = time_->iterations();
    const LockstepTime::Ends ends = time_->ends();
    place.virtual_ends = ends.learners;
    place.virtual_exchange = ends.exchange;
    place.lost = lost_;
  }
  return place;
}

void SynchronousEngine::resume(const EnginePlace& place) {
  if (time_) {
    LockstepTime::Ends ends{place.virtual_ends, place.virtual_exchange};
    if (std::ssize(ends.learners) != learners()) {
      ends.learners.assign(static_cast<size_t>(learners()), place.virtual_time);
      ends.exchange = place.virtual_time;
    }
    lost_ = place.lost;
    time_->restore(ends, place.virtual_steps, lost_);
  }
  if (sync_) lockstep_.restore(place.exchanges, place.since_exchange, place.joined);
  for (size_t d = 1; d < centrals_.size(); ++d) {
    const auto from = centrals_[0]->state(), to = centrals_[d]->state();
    for (size_t i = 0; i < to.size(); ++i) devices()[d]->copy_now(to[i], from[i], weight_bytes());
    const auto slots = centrals_[0]->slots(), own = centrals_[d]->slots();
    for (size_t i = 0; i < own.size(); ++i) {
      devices()[d]->copy_now(own[i].data(), slots[i].data(), own[i].size());
    }
  }
}

std::optional<double> SynchronousEngine::distance() {
  if (!sync_ || averages_gradients()) return {};
  if (before_restart_) return before_restart_;
  std::vector<double> squares(static_cast<size_t>(learners()));
  on_each_device([&](int d) {
    Queue& queue = this->queue(d * options().threads.workers);
    const std::byte* const z = central_of(d)->z(side());
    for (int n = 0; n < options().learners; ++n) {
      const int j = d * options().learners + n;
      squares[static_cast<size_t>(j)] =
          squared_distance(device(d), queue, layout().dtype, learner(j).weights(side()), z,
                           layout().parameter_elements);
    }
  });
  if (options().world) squares = gathered(*options().world, std::span<const double>(squares));
  return std::sqrt(std::accumulate(squares.begin(), squares.end(), 0.0) / all_learners());
}

std::vector<EngineBuffer> SynchronousEngine::buffers() const {
  using Kind = EngineBuffer::Kind;
  std::vector<EngineBuffer> all;
  const auto add = [&](Kind kind, size_t index, std::byte* data, Device& device,
                       const std::string& slot = {}) {
    if (data) all.push_back({kind, static_cast<int64_t>(index), data, &device, slot});
  };
  const auto add_slots = [&](size_t index, std::span<const Buffer> slots, Device& device) {
    for (size_t i = 0; i < slots.size(); ++i) {
      add(Kind::slot, index, slots[i].data(), device, optimizer().slots[i]);
    }
  };
  for (int j = 0; j < learners(); ++j) {
    const auto at = static_cast<size_t>(first_learner() + j);
    Device& device = this->device(device_of(j));
    if (sync_ && !averages_gradients()) add(Kind::weights, at, learner(j).weights(side()), device);
    add_slots(at, learner(j).slots(), device);
    if (sync_) add(Kind::states, at, learner(j).states(), device);
  }
  if (sync_) {
    add_slots(0, central_of(0)->slots(), device(0));
    const std::vector<std::byte*> state = central_of(0)->state();
    for (size_t i = 0; i < state.size(); ++i) add(Kind::central, i, state[i], device(0));
  }
  return all;
}

std::pair<double, double> SynchronousEngine::sync_seconds() const {
  std::pair<double, double> sum;
  for (const auto& central : centrals_) {
    sum.first += central->working_seconds();
    sum.second += central->waiting_seconds();
  }
  return sum;
}

void SynchronousEngine::restart() {
  for (int j = 0; j < learners(); ++j) {
    const int d = device_of(j);
    device(d).copy_now(learner(j).weights(side()), central_of(d)->z(side()), weight_bytes());
  }
}

void SynchronousEngine::write_evaluated(Queue& queue, std::byte* to) {
  queue.copy(to, sync_ ? central_of(0)->z(side()) : learner(0).weights(0), weight_bytes());
}

int64_t SynchronousEngine::batches_done() const {
  int64_t iterations = segment().batches;
  for (int j = 0; j < learners(); ++j) iterations = std::min(iterations, landed(j));
  return std::min(iterations * all_learners(), segment().batches);
}

void SynchronousEngine::begin(const Segment& segment) {
  salvaged_ = false;
  before_restart_.reset();
  const int64_t k = all_learners();
  scheduler_.start((segment.batches + k - 1) / k, [this] {
    return this->segment().stop() || (scheduler_.begun() > 0 && this->segment().pause());
  });
  if (!sync_) return;
  lockstep_.start(period_of(segment));
  for (int d = 0; d < options().threads.devices; ++d) {
    central_of(d)->start([this, d](int64_t i, ExchangeInput& input) { describe(d, i, input); });
  }
}

int64_t SynchronousEngine::period_of(const Segment& segment) const {
  const int64_t k = all_learners();
  return sync_->period(segment.after_first_drop, (segment.epoch_batches + k - 1) / k);
}

/// How long steps take does not depend on what they compute, so this is known before they are made,
/// and no step is made that would be lost.
std::optional<LearnerLoss> SynchronousEngine::next_loss(const Segment& segment) const {
  if (!time_ || !sync_) return {};
  Lockstep lockstep = lockstep_;
  lockstep.start(period_of(segment));
  const auto loss = time_->next_loss(lockstep, segment.batches);
  if (!loss) return {};
  return LearnerLoss{loss->iterations * learners(), loss->learner, loss->node, loss->noticed};
}

/// Elsewhere than on the host to give work is all that a thread does, and one can do it for all
/// learners. No turn waits for a later one, as each has a queue of its own.
int SynchronousEngine::queues_of_thread() const {
  const int workers = options().threads.workers;
  return device().is_host() || workers != options().learners ? 1 : workers;
}

void SynchronousEngine::work(int worker) {
  const int end = worker + queues_of_thread();
  for (bool goes_on = true; goes_on;) {
    goes_on = false;
    for (int w = worker; w < end; ++w) {
      const auto task = scheduler_.claim(w);
      if (!task) continue;
      if (!step(w, *task)) return;
      scheduler_.finish(*task);
      goes_on = true;
    }
  }
  Central* const central = central_of(device_of_worker(worker));
  for (int w = worker; central && w < end; ++w) {
    central->complete(lockstep_.exchanges_before(scheduler_.begun()), scheduler_,
                      scratch_[static_cast<size_t>(w)], queue(w));
  }
}

void SynchronousEngine::drain() {
  for (const auto& central : centrals_) central->drain();
}

void SynchronousEngine::end(const Segment& segment) {
  scheduler_.check();
  const int64_t iterations = scheduler_.begun();
  if (time_) {
    for (int64_t i = 0; i < iterations; ++i) {
      time_->iteration(lockstep_, i, segment.batches - i * learners());
    }
    time_->end_segment(lockstep_, iterations, batches_done() == segment.batches);
  }
  if (!sync_) return;
  for (const auto& central : centrals_) central->finish(lockstep_.exchanges_before(iterations));
  lockstep_.finish(iterations);
  const bool dropped = segment.ends_at_drop && batches_done() == segment.batches;
  if (!sync_->traits().restarts || !dropped || lockstep_.exchanges() == 0) return;
  before_restart_ = distance();
  restart();
}

Learner::Route SynchronousEngine::route_of(int64_t iteration) const {
  if (!sync_) return {};
  const Central& central = *central_of(0);
  const int64_t before = lockstep_.exchanges_before(iteration);
  return {central.side(before), central.side(before + lockstep_.exchanges_at(iteration))};
}

double SynchronousEngine::pull_of(int64_t iteration) const {
  return lockstep_.waits_to_update(iteration) ? sync_->pull() : 0;
}

bool SynchronousEngine::step(int worker, const Scheduler::Task& task) {
  const int j = task.learner;
  const int64_t i = task.iteration;
  Learner& learner = this->learner(j);
  Queue& queue = this->queue(worker);
  Central* const central = central_of(device_of_worker(worker));
  bool alive = true;
  const auto wait_for = [&](int64_t exchanges) {
    if (exchanges > 0) {
      alive =
          central->complete(exchanges, scheduler_, scratch_[static_cast<size_t>(worker)], queue);
    }
    return alive;
  };
  if (central && !wait_for(lockstep_.needed_to_begin(i))) return false;
  // So that the sum over ranks runs beside the step. It begins here or, if the one before is late,
  // as soon as that has been waited for. A queue that runs ahead would have to end its work first.
  const auto begin_exchange = [&] {
    if (!world_comm_ || lockstep_.waits_to_begin() || !device().is_host()) return;
    central->begin(lockstep_.exchanges_before(i + 1), scheduler_,
                   scratch_[static_cast<size_t>(worker)]);
  };
  begin_exchange();

  const auto passed = [&](size_t cuts) {
    scheduler_.pass(task, static_cast<int>(cuts));
    central->begin(lockstep_.exchanges_before(i + 1), scheduler_,
                   scratch_[static_cast<size_t>(worker)]);
  };
  const auto before_update = [&] {
    if (central && !wait_for(lockstep_.needed_to_update(i))) return false;
    begin_exchange();
    return true;
  };
  const Learner::Route route = route_of(i);
  const double pull = pull_of(i);
  Step step;
  land(j, this->flight(j, i));  // of two steps ago: that one and the last keep the queue busy
  Flight& flight = prepare(j, i, batch_of(i, j), step);
  if (const data::Batch* const batch = flight.load.batch) {
    const double rate = segment().rate(first_batch_of(i));
    learner.step(worker, step, batch->rows, rate, pull, route, flight.part_losses(), before_update,
                 passed);
  } else if (before_update()) {
    learner.idle_step(worker, pull, route);
  }
  if (alive) launch(queue, j, flight, i);
  return alive;
}

void SynchronousEngine::describe(int device, int64_t iteration, ExchangeInput& input) const {
  const int side = route_of(iteration).from;
  int64_t all_rows = 0;
  const int64_t k = all_learners(), first = first_batch_of(iteration);
  for (int64_t batch = first; batch < first + k; ++batch) all_rows += rows_of(batch);
  const bool measures = central_of(device)->measures() && all_rows == k * options().batch.rows;
  input.lr = segment().rate(first);
  for (int n = 0; n < options().learners; ++n) {
    const int j = device * options().learners + n;
    const Learner& learner = this->learner(j);
    const auto at = static_cast<size_t>(n);
    input.made[at] = &learner.done();
    input.terms[at] = averages_gradients() ? learner.gradients() : learner.weights(side);
    input.weights[at] = learner.weights(side);
    input.gradients[at] = !measures              ? nullptr
                          : averages_gradients() ? learner.gradients()
                                                 : learner.slots()[0].data();
    input.factors[at] =
        averages_gradients()
            ? static_cast<double>(rows_of(batch_of(iteration, j))) / static_cast<double>(all_rows)
            : 1.0 / static_cast<double>(k);
  }
}

void SynchronousEngine::time_step(const Step& step, double lr, std::span<double> seconds) {
  learner(0).timed_step(0, step, lr, pull_of(0), route_of(0), seconds);
}

UpdateTraffic SynchronousEngine::update_traffic() const {
  const auto slots = static_cast<double>(optimizer().slots.size());
  const UpdateTraffic own{3 + 2 * slots, 2 + slots};
  if (!sync_) return own;
  const auto k = static_cast<double>(learners());
  const double share = 1.0 / static_cast<double>(sync_->period(false, SyncAlgorithm::kLongEpoch));
  if (lockstep_.two_sides()) {
    // The step reads z too and writes other weights than it reads; the exchange reads all weights,
    // z and the z before, and writes z.
    return {own.accesses + share * (1 + (k + 3) / k), own.arrays + 1 + 2 / k};
  }
  if (averages_gradients()) {
    // The step leaves its gradient, which the exchange reads besides what one learner's update
    // reads and writes.
    return {1 + (k + own.accesses - 1) / k, 1 + (own.arrays - 1) / k};
  }
  if (lockstep_.pulls_to_mean()) {
    // The step reads the mean too; the exchange reads all weights, and writes the mean.
    return {own.accesses + share * (1 + (k + 1) / k), own.arrays + 2 / k};
  }
  // The exchange reads all weights and writes them and z.
  return {own.accesses + share * (2 * k + 1) / k, own.arrays + 1 / k};
}

}  // namespace crossbow
