#include "learner/async_engine.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "device/hogwild_sgd.h"

namespace crossbow {

namespace {

std::unique_ptr<Coordinator> make_coordinator(
    const std::shared_ptr<const AsyncAlgorithm>& algorithm, const AsyncSettings& settings,
    const BatchShape& batch) {
  if (!algorithm->traits().unlike) return nullptr;
  std::vector<WorkerTerms> terms;
  for (const NodeWorker& worker : settings.workers) terms.push_back(worker.terms);
  return std::make_unique<Coordinator>(algorithm, terms, batch.rows, settings.samples);
}

std::optional<OtherNodes> others(Mail* mail, const World* world) {
  if (!world) return {};
  return OtherNodes{mail, world->rank(), world->size()};
}

}  // namespace

AsyncEngine::AsyncEngine(std::span<CompiledModel* const> models,
                         std::shared_ptr<const AsyncAlgorithm> algorithm, AsyncSettings settings,
                         const EngineOptions& options)
    : Engine(models, options),
      settings_(std::move(settings)),
      mail_(options.world ? options.world->make_mail(weight_bytes()) : nullptr),
      sums_(options.world && !algorithm->traits().server ? make_sums() : nullptr),
      errands_(options.world || !options.away.empty() ? device(0).make_queue() : nullptr),
      nodes_(algorithm, layout(), options.optimizer, device(0),
             {options.learners, options.seed, options.clip_norm,
              models[0]->options().update.has_value(), settings_.pace.network,
              others(mail_.get(), options.world)}),
      live_(models[0]->options().update.has_value()),
      clocks_(static_cast<size_t>(options.learners)),
      coordinator_(make_coordinator(algorithm, settings_, options.batch)),
      batches_(options.batch),
      dispatcher_(coordinator_ ? static_cast<Dispatcher&>(*coordinator_) : batches_) {
  assert(options.threads.devices == 1);
  if (mail_) arrivals_.emplace(options.learners * options.world->size());
  on_each_device([&](int) {
    for (int j = 0; j < options.learners; ++j) {
      LearnerSetup setup{options.batch, options.optimizer, options.clip_norm};
      if (const NodeWorker* const worker = worker_of(j)) {
        setup.batch.rows = worker->rows.back();
        setup.batch.sizes = worker->rows;
        setup.away = away(j);
        setup.takes_first = live_ && worker->replica;
        if (setup.takes_first && algorithm->traits().overwrites)
          setup.optimizer = make_hogwild_sgd(setup.optimizer.weight_decay, true);
      }
      (live_ ? setup.shared_slot : setup.shared_weights) =
          live_ ? nodes_.weights(0) : nodes_.read(j);
      CompiledModel& model = *models[models.size() == 1 ? 0 : static_cast<size_t>(j)];
      add_learner(model, setup, 0, [this](int w, int node) { return runs(w, node); });
    }
  });
}

void AsyncEngine::start_from(const Replica& model) {
  Engine::start_from(model);
  nodes_.start_from(device(0), model.parameters.data());
  for (NodeClock& clock : clocks_) clock = {};
  order_.clear();
  turns_ = updates_ = 0;
  events_ = 0;
  ended_ = 0;
  gather_nodes();
}

void AsyncEngine::begin(const Segment& segment) {
  const std::lock_guard lock(mutex_);
  dispatcher_.begin(*segment.source, segment.first_batch, segment.batches, segment.share);
  stopped_ = hurries_ = false;
  const int64_t turns = segment.batches + 2 * learners();
  constexpr int64_t kEvents = 4;  // of a turn: its parts, and messages
  order_.reserve(order_.size() + static_cast<size_t>(mail_ ? kEvents * turns : turns));
  for (NodeClock& clock : clocks_) {
    clock.number = 0;
    clock.parked = false;                // in the segment before, where there were no more batches
    clock.free_since += now() - ended_;  // what was between does not count
  }
  began_ = now();
  if (mail_) mail_->open(*this);
}

double AsyncEngine::due(const NodeClock& clock) const {
  return settings_.clock == AsyncSettings::Clock::virtual_time ? clock.state.time
                                                               : clock.free_since;
}

int AsyncEngine::next_turn(int worker) const {
  if (mail_ && replays()) return next_replayed();
  for (int j = 0; j < learners(); ++j) {
    const NodeClock& c = clock(j);
    if (c.asked == Asked::nothing || c.phase != Phase::waits_for_turn) continue;
    if (nodes_.is_answered(j)) return j;
  }
  if (leaves_the_rest()) return -1;
  int next = -1;
  if (replays()) {
    if (turns_ < static_cast<int64_t>(settings_.replay.size())) {
      next = settings_.replay[static_cast<size_t>(turns_)];
    }
  } else {
    const bool real = settings_.clock == AsyncSettings::Clock::real;
    const double time = real ? now() : 0;
    for (int j = 0; j < learners(); ++j) {
      const NodeClock& c = clock(j);
      if (c.parked || c.state.held || c.state.failed || c.asked != Asked::nothing) continue;
      if (!nodes_.may_take_turn(j)) continue;
      if (real && !runs(worker, j)) continue;
      if (real && (c.phase != Phase::waits_for_turn || (c.free_since > time && !hurries_)))
        continue;
      if (next < 0 || due(c) < due(clock(next))) next = j;
    }
  }
  if (next < 0 || clock(next).parked || clock(next).phase != Phase::waits_for_turn) return -1;
  return next;
}

int AsyncEngine::next_gradient(int worker) const {
  int next = -1;
  for (int j = 0; j < learners(); ++j) {
    if (clock(j).phase != Phase::waits_for_worker || !runs(worker, j)) continue;
    if (next < 0 || last_work(clock(j)).first < last_work(clock(next)).first) next = j;
  }
  return next;
}

bool AsyncEngine::over() const {
  if (error_) return true;
  return std::all_of(clocks_.begin(), clocks_.end(), [&](const NodeClock& c) {
    if (c.state.failed) return !dispatcher_.gives_again();
    return c.phase == Phase::waits_for_turn && c.asked == Asked::nothing &&
           (leaves_the_rest() || c.parked);
  });
}

/// By the real clock no longer than it takes to notice that the run is to stop: then stretched
/// nodes are not waited for.
void AsyncEngine::wait_for_change(std::unique_lock<std::mutex>& lock) {
  if (settings_.clock != AsyncSettings::Clock::real) return changed_.wait(lock);
  constexpr double kNoticed = 0.1;  // seconds
  if (!hurries_ && segment().stop()) {
    hurries_ = true;
    return;
  }
  const double time = now();
  double wait = kNoticed;
  for (const NodeClock& c : clocks_) {
    if (c.state.failed) continue;
    if (may_outlast_lease(c)) wait = std::min(wait, c.began + *settings_.lease - time);
    const bool stretched = c.phase == Phase::waits_for_turn && !c.parked && !c.state.held &&
                           c.asked == Asked::nothing && c.free_since > time;
    if (stretched && !hurries_) wait = std::min(wait, c.free_since - time);
  }
  changed_.wait_for(lock, Seconds(wait));
}

void AsyncEngine::work(int worker) {
  std::unique_lock lock(mutex_);
  while (!over()) {
    drop_late_nodes();
    if (const int node = next_turn(worker); node >= 0) {
      take_turn(worker, node, lock);
    } else if (const int waiting = next_gradient(worker); waiting >= 0) {
      compute(worker, waiting, lock);
    } else {
      expect_more_turns();
      wait_for_change(lock);
    }
  }
}

int64_t AsyncEngine::rows_of(const Work& work) const {
  int64_t rows = 0;
  for (int64_t b = work.first; b < work.first + work.count; ++b) rows += Engine::rows_of(b);
  return rows;
}

bool AsyncEngine::may_begin(int node) const {
  if (!settings_.staleness) return true;
  int64_t slowest = std::numeric_limits<int64_t>::max();
  for (const NodeClock& c : clocks_) {
    if (!c.parked && !c.state.failed) slowest = std::min(slowest, c.state.epoch_updates);
  }
  return clock(node).state.epoch_updates - slowest <= *settings_.staleness;
}

/// Nodes that were too far ahead and are not any more.
void AsyncEngine::let_go_on() {
  const bool left = dispatcher_.left();
  for (int j = 0; j < learners(); ++j) {
    NodeClock& c = clock(j);
    if (!c.state.held || (left && !may_begin(j))) continue;
    c.state.held = false;
  }
}

/// All of it, or what follows an answer, up to the next question.
void AsyncEngine::describe_turn(int node) {
  NodeClock& c = clock(node);
  const double time = c.state.time;
  const Asked asked = std::exchange(c.asked, Asked::nothing);
  if (mail_) {
    using Kind = RankEvent::Kind;
    note({asked == Asked::nothing ? Kind::turn : Kind::answer, first_learner() + node});
  }
  if (asked == Asked::nothing) {
    nodes_.begin_turn(node, time);
    if (c.state.stepping) end_step(node);
    if (nodes_.asks(node)) {
      c.asked = Asked::after_step;
      return;
    }
  } else {
    nodes_.take_answer(node);
  }
  if (asked != Asked::before_step) {
    if (fails_now(node)) {
      fail_in_turn(node);
    } else {
      begin_next_step(node);
    }
    if (nodes_.asks(node)) {
      c.asked = Asked::before_step;
      return;
    }
  }
  for (NodeClock& other : clocks_) {
    if (!other.state.held) continue;
    other.state.report.waiting += reported(0, time - other.state.time);
    other.state.time = std::max(other.state.time, time);
  }
  let_go_on();
  ++turns_;
  if (in_order()) order_.push_back(node);
}

void AsyncEngine::end_step(int node) {
  NodeState& s = clock(node).state;
  nodes_.end_step(node, learner(node).gradients(), s.lr, has_replica(node));
  dispatcher_.done(node);
  const int64_t steps = options().batch.steps_of(s.rows);
  const int64_t staleness = updates_ - s.updates_before;
  updates_ += steps;
  s.report.updates += steps;
  ++s.epoch_updates;
  s.report.rows += s.rows;
  s.report.staleness += staleness;
  s.report.largest_staleness = std::max(s.report.largest_staleness, staleness);
  s.stepping = false;
}

void AsyncEngine::begin_next_step(int node) {
  NodeClock& c = clock(node);
  NodeState& s = c.state;
  const bool may_begin = this->may_begin(node);
  std::optional<Work> work;
  if (may_begin) work = dispatcher_.next(node);
  s.stepping = work.has_value();
  s.held = !may_begin && dispatcher_.left();
  c.parked = !s.stepping && !s.held;
  if (work) nodes_.begin_step(node);
  c.state.report.waiting += reported(0, nodes_.ready(node) - s.time);
  s.time = nodes_.ready(node);
  if (!work) return;
  s.lr = segment().rate(work->first) *
         std::pow(static_cast<double>(work->size) / settings_.rate_size, settings_.rate_exponent);
  s.rows = rows_of(*work);
  const double takes = settings_.pace.duration(options().seed, node, nodes_.numbers(node).steps,
                                               work->size * options().batch.rows);
  s.time += takes;
  c.state.report.busy += reported(0, takes);
  c.works[static_cast<size_t>(c.number++) % c.works.size()] = *work;
  s.updates_before = updates_;
}

/// A node that fails before it would be done with its next step does not begin it.
bool AsyncEngine::fails_now(int node) const {
  if (settings_.clock != AsyncSettings::Clock::virtual_time || nodes_.living() == 1) return false;
  const double fails = settings_.pace.fails_at(node);
  if (std::isinf(fails)) return false;
  const double takes = settings_.pace.duration(options().seed, node, nodes_.numbers(node).steps,
                                               options().batch.rows);
  return nodes_.ready(node) + takes > fails;
}

void AsyncEngine::fail_in_turn(int node) {
  NodeState& s = clock(node).state;
  s.stepping = s.held = false;
  s.failed = true;
  nodes_.drop(node);
  failures_.push_back({node, "as `fail` says", /*in_step=*/false});
  order_.clear();
}

double AsyncEngine::reported(double seconds, double steps) const {
  const double unit = settings_.pace.step_seconds;
  return unit > 0 ? steps * unit : seconds;
}

/// Of a whole epoch every step is ended: a run that is stopped there is at its end.
bool AsyncEngine::is_to_stop() const {
  if (dispatcher_.all_handed_out()) return false;
  const bool begun = dispatcher_.first_open() > segment().first_batch;
  return segment().stop() || (begun && segment().pause());
}

void AsyncEngine::take_turn(int worker, int node, std::unique_lock<std::mutex>& lock) {
  if (!stopped_ && is_to_stop()) {
    stopped_ = true;
    changed_.notify_all();
    return;
  }
  NodeClock& c = clock(node);
  const double began = now();
  c.state.report.waiting += reported(began - c.free_since, 0);
  const bool begins = c.asked == Asked::nothing;
  const bool ends = begins && c.state.stepping;
  c.phase = Phase::in_turn;
  describe_turn(node);
  changed_.notify_all();
  lock.unlock();
  if (mail_ && replays()) mail_->look_again();
  Queue& queue = queue_at_home(worker);
  if (ends) queue.wait(learner(node).done());
  nodes_.do_turn(node, queue);
  lock.lock();
  c.free_since = now();
  const double took = c.free_since - began;
  c.turn_took = begins ? took : c.turn_took + took;
  turn_seconds_ += took;
  c.state.report.busy += reported(took, 0);
  const bool steps = c.state.stepping && c.asked == Asked::nothing;
  c.phase = steps ? Phase::waits_for_worker : Phase::waits_for_turn;
  if (steps && settings_.clock == AsyncSettings::Clock::real) {
    compute(worker, node, lock);
  } else {
    changed_.notify_all();
  }
}

void AsyncEngine::compute(int worker, int node, std::unique_lock<std::mutex>& lock) {
  NodeClock& c = clock(node);
  const double began = now();
  c.state.report.waiting += reported(began - c.free_since, 0);
  c.phase = Phase::fetches;
  const int64_t number = c.number - 1;
  const Work work = last_work(c);
  lock.unlock();
  Step step;
  Queue& queue = queue_at_home(worker);
  queue.wait(nodes_.done(node));
  Flight& flight = prepare(node, number, dispatcher_.fetch(work, node), step);
  lock.lock();
  c.phase = Phase::computes;
  c.began = now();
  lock.unlock();
  std::optional<std::string> failure;
  try {
    if (live_ && has_replica(node)) learner(node).take_shared(worker);
    learner(node).step(
        worker, step, flight.load.batch->rows, c.state.lr, 0, {}, flight.part_losses(),
        [] { return true; }, [](size_t) {});
  } catch (const std::exception& error) {
    if (!device(0).is_host() || replays()) throw;
    failure = error.what();
  }
  lock.lock();
  if (failure && !c.state.failed) {
    drop(node, *failure);
  } else {
    drop_late_nodes();  // this one perhaps, if no worker was free to notice
  }
  if (c.state.failed) {
    c.state.report.busy += reported(now() - began, 0);
    give_back_batch(flight);
    c.phase = Phase::waits_for_turn;
    changed_.notify_all();
    return;
  }
  c.phase = Phase::lands;
  lock.unlock();
  launch(queue, node, flight, number);
  land(node, this->flight(node, number + 1));  // of the step before
  lock.lock();
  c.phase = Phase::waits_for_turn;
  c.free_since = now();
  c.state.report.busy += reported(c.free_since - began, 0);
  if (settings_.clock == AsyncSettings::Clock::real) {
    const double stretch = (settings_.pace.slowness_of(first_learner() + node) - 1) *
                           (c.turn_took + c.free_since - began);
    c.state.report.waiting += reported(stretch, 0);
    c.free_since += stretch;
  }
  changed_.notify_all();
}

void AsyncEngine::end(const Segment&) {
  const std::lock_guard lock(mutex_);
  if (error_) std::rethrow_exception(error_);
  clear_failed_nodes();
  if (ends_round() && dispatcher_.all_handed_out()) end_round();
  gather_nodes();
  ended_ = now();
}

void AsyncEngine::end_round() {
  if (coordinator_) coordinator_->end_round(is_whole_round());
  if (round() > 0) {
    on_each_device([&](int) {
      nodes_.merge(queue(0));
      queue(0).finish();
    });
  }
  double last = 0;
  for (const NodeClock& c : clocks_) {
    if (!c.state.failed) last = std::max(last, c.state.time);
  }
  for (NodeClock& c : clocks_) {
    if (c.state.failed) continue;
    const double free_since = std::exchange(c.free_since, now());
    c.state.report.waiting += reported(c.free_since - free_since, last - c.state.time);
    c.state.time = last;
    c.state.epoch_updates = 0;
    c.parked = false;
  }
}

int64_t AsyncEngine::batches_done() const {
  const std::lock_guard lock(mutex_);
  int64_t first_open = dispatcher_.first_open();
  for (int j = 0; j < learners(); ++j) {
    const NodeClock& c = clock(j);
    const int64_t next = landed(j);
    if (next == c.number) continue;
    first_open = std::min(first_open, c.works[static_cast<size_t>(next) % c.works.size()].first);
  }
  return first_open - segment().first_batch;
}

void AsyncEngine::drop_late_nodes() {
  for (int j = 0; j < learners(); ++j) {
    const NodeClock& c = clock(j);
    if (!may_outlast_lease(c) || now() - c.began <= *settings_.lease) continue;
    drop(j, fmt::format("its step took longer than {} s", *settings_.lease));
  }
}

/// A step that may be given up: not that of the last node, nor a second try.
bool AsyncEngine::may_outlast_lease(const NodeClock& c) const {
  return settings_.lease && nodes_.living() > 1 && c.phase == Phase::computes && !c.state.failed &&
         !last_work(c).second_try;
}

void AsyncEngine::drop(int node, const std::string& why) {
  NodeClock& c = clock(node);
  const Work work = last_work(c);
  if (work.second_try) {
    throw NodesFailed(fmt::format("batch {} has failed twice, the second time on node {}: {}",
                                  work.first, node, why));
  }
  if (mail_) {
    throw NodesFailed(fmt::format("node {} has failed, and so does a run of several ranks: {}",
                                  first_learner() + node, why));
  }
  if (nodes_.living() == 1) {
    throw NodesFailed(fmt::format("the last node has failed, node {}: {}", node, why));
  }
  dispatcher_.give_back(node, work, *flight(node, c.number - 1).load.batch);
  --c.number;  // the step counts as if it had never been begun
  c.state.failed = true;
  c.state.stepping = false;
  nodes_.drop(node);
  failures_.push_back({node, why});
  order_.clear();
  for (NodeClock& other : clocks_) {
    if (!other.parked) continue;
    other.parked = false;
    other.state.time = std::max(other.state.time, c.state.time);
  }
  let_go_on();
  changed_.notify_all();
}

void AsyncEngine::receive(const Mail::Header& header, std::byte* vector) {
  Nodes::Arrival arrival;
  {
    const std::lock_guard lock(mutex_);
    note({RankEvent::Kind::arrival, header.from, arrivals_->take(header.from, header.sequence)});
    arrival = nodes_.describe_arrival(header, vector);
    if (replays()) changed_.notify_all();
  }
  nodes_.do_arrival(arrival, *errands_);
}

void AsyncEngine::room_is_free() {
  const std::lock_guard lock(mutex_);
  changed_.notify_all();
}

/// What other ranks have sent is here then, and they have what this one has sent.
void AsyncEngine::drain() {
  if (!mail_) return;
  share_seconds_ = now() - began_;
  failed() ? mail_->give_up() : mail_->close();
}

std::vector<NodeFailure> AsyncEngine::take_failures() {
  const std::lock_guard lock(mutex_);
  return std::exchange(failures_, {});
}

void AsyncEngine::fail(std::exception_ptr error) {
  const std::lock_guard lock(mutex_);
  if (!error_) error_ = std::move(error);
  nodes_.give_up();
  changed_.notify_all();
}

bool AsyncEngine::failed() const {
  const std::lock_guard lock(mutex_);
  return error_ != nullptr;
}

void AsyncEngine::time_step(const Step& step, double lr, std::span<double> seconds) {
  learner(0).timed_step(0, step, lr, 0, {}, seconds);
}

UpdateTraffic AsyncEngine::update_traffic() const {
  const auto slots = static_cast<double>(optimizer().slots.size());
  if (live_) return {3 + 2 * slots, 2 + slots};
  // The step leaves its gradient; a turn reads it again.
  return {4 + 2 * slots, 2 + slots};
}

}  // namespace crossbow
