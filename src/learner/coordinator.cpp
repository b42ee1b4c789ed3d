#include "learner/coordinator.h"

#include <algorithm>
#include <cassert>

#include "core/error.h"

namespace crossbow {
namespace {

int64_t smallest_batch(const CoordinatorOptions& options) {
  if (options.workers.empty()) fail_usage("there is no worker");
  int64_t smallest = options.workers.front().least;
  for (const WorkerTerms& w : options.workers) smallest = std::min(smallest, w.least);
  return smallest;
}

void expect_ladders(const CoordinatorOptions& options) {
  const int64_t grain = smallest_batch(options);
  if (grain < 1) fail_usage("a worker's smallest batch is {}: it must be at least 1", grain);
  if (options.alpha < 2) fail_usage("alpha {}: it must be at least 2", options.alpha);
  for (size_t w = 0; w < options.workers.size(); ++w) {
    const auto [least, most, batches, updates] = options.workers[w];
    if (least % grain != 0) {
      fail_usage("a worker's smallest batch is {}: it must be a multiple of {}, as is {}", least,
                 grain, (least / grain + 1) * grain);
    }
    const std::vector<int64_t> sizes = Coordinator::ladder(options.workers[w], options.alpha);
    if (sizes.empty() || sizes.back() != most) {
      const int64_t below = sizes.empty() ? least : sizes.back();
      fail_usage("a worker's batches from {} grow by a factor of {}: they reach {} or {}, not {}",
                 least, options.alpha, below, below * options.alpha, most);
    }
    if (batches < 1) fail_usage("an order of {} batches is none", batches);
  }
  if (options.first_batches.size() != options.workers.size()) {
    fail_usage("{} workers need as many first batches, not {}", options.workers.size(),
               options.first_batches.size());
  }
  for (size_t w = 0; w < options.workers.size(); ++w) {
    const std::vector<int64_t> sizes = Coordinator::ladder(options.workers[w], options.alpha);
    if (std::find(sizes.begin(), sizes.end(), options.first_batches[w]) == sizes.end()) {
      fail_usage("a worker cannot begin with a batch of {}", options.first_batches[w]);
    }
  }
}

}  // namespace

std::vector<int64_t> Coordinator::ladder(const WorkerTerms& terms, int64_t alpha) {
  std::vector<int64_t> sizes;
  for (int64_t size = terms.least; size <= terms.most; size *= alpha) sizes.push_back(size);
  return sizes;
}

int64_t Coordinator::rest(const CoordinatorOptions& options) {
  return options.rows % smallest_batch(options);
}

Coordinator::Coordinator(const CoordinatorOptions& options)
    : options_((expect_ladders(options), options)),
      grain_(smallest_batch(options)),
      tallies_(options.workers.size()),
      states_(options.workers.size(), State::away),
      orders_(options.workers.size()) {
  for (size_t w = 0; w < tallies_.size(); ++w) tallies_[w].batch = options.first_batches[w];
}

void Coordinator::request(const WorkRequest& request, std::vector<AddressedOrder>& out) {
  if (!living(request.worker)) return;  // too late
  State& state = states_[static_cast<size_t>(request.worker)];
  assert(state != State::waits);
  if (state == State::works) account_for(request.worker, request.loss_sum);
  state = State::waits;
  hand_out(out);
}

void Coordinator::fail(int32_t worker, std::vector<AddressedOrder>& out) {
  if (!living(worker)) return;
  const auto w = static_cast<size_t>(worker);
  tallies_[w].failed = true;
  if (states_[w] == State::works) {
    given_back_.push_back({orders_[w].first, orders_[w].rows});
    if (training_) repeated_rows_ += orders_[w].rows;
  }
  states_[w] = State::away;
  if (std::all_of(tallies_.begin(), tallies_.end(), [](const auto& t) { return t.failed; })) {
    crossbow::fail("no worker is left");
  }
  hand_out(out);
}

void Coordinator::account_for(int32_t worker, double loss_sum) {
  const WorkOrder& done = orders_[static_cast<size_t>(worker)];
  if (done.kind == WorkOrder::Kind::loss) {
    loss_sum_ += loss_sum;
    return;
  }
  const int64_t batches = (done.rows + done.batch - 1) / done.batch;
  WorkerTally& t = tally(worker);
  t.rows += done.rows;
  t.batches += batches;
  t.updates += static_cast<double>(batches) * terms(worker).updates_per_batch;
  if (options_.adaptive) adapt(worker);
}

/// Who lags behind all others gets smaller batches, and so updates more often; who is ahead of all
/// gets larger ones.
void Coordinator::adapt(int32_t worker) {
  double least = std::numeric_limits<double>::infinity(), most = -least;
  for (int32_t other = 0; other < count(); ++other) {
    if (other == worker || !living(other)) continue;
    least = std::min(least, tally(other).updates);
    most = std::max(most, tally(other).updates);
  }
  if (least > most) return;  // there is nobody else
  WorkerTally& t = tally(worker);
  if (t.updates < least && t.batch > terms(worker).least) t.batch /= options_.alpha;
  if (t.updates > most && t.batch < terms(worker).most) t.batch *= options_.alpha;
}

void Coordinator::hand_out(std::vector<AddressedOrder>& out) {
  for (;;) {
    for (int32_t w = 0; w < count(); ++w) {
      State& state = states_[static_cast<size_t>(w)];
      if (state != State::waits) continue;
      const auto order = next_order(w);
      if (!order) continue;
      out.push_back({w, *order});
      orders_[static_cast<size_t>(w)] = *order;
      const bool stops = order->kind == WorkOrder::Kind::stop;
      if (!stops) take(order->rows);
      state = stops ? State::away : State::works;
    }
    for (int32_t w = 0; w < count(); ++w) {
      if (living(w) && states_[static_cast<size_t>(w)] != State::waits) return;
    }
    go_on();
  }
}

std::optional<WorkOrder> Coordinator::next_order(int32_t worker) const {
  if (stopping_) return WorkOrder{};
  const Range range = left();
  if (range.rows == 0) return {};
  if (!training_) {
    const int64_t rows = std::min(range.rows, options_.loss_rows);
    return WorkOrder{WorkOrder::Kind::loss, epoch_, range.first, rows, rows, 0};
  }
  int64_t batch = tally(worker).batch;
  while (batch > range.rows && batch > terms(worker).least) batch /= options_.alpha;
  int64_t rows = std::min(range.rows / batch, terms(worker).batches_per_order) * batch;
  if (rows == 0 && range.rows < grain_ && terms(worker).least == grain_) batch = rows = range.rows;
  if (rows == 0) return {};
  const double lr = options_.lr_batch == 0 ? options_.lr
                                           : options_.lr * static_cast<double>(batch) /
                                                 static_cast<double>(options_.lr_batch);
  return WorkOrder{WorkOrder::Kind::train, epoch_, range.first, rows, batch, lr};
}

Coordinator::Range Coordinator::left() const {
  if (!given_back_.empty()) return given_back_.back();
  return {next_, (training_ ? options_.rows : options_.test_rows) - next_};
}

void Coordinator::take(int64_t rows) {
  if (given_back_.empty()) {
    next_ += rows;
    return;
  }
  Range& range = given_back_.back();
  range.first += rows;
  range.rows -= rows;
  if (range.rows == 0) given_back_.pop_back();
}

/// Everybody waits.
void Coordinator::go_on() {
  if (const int64_t rows = left().rows; rows > 0) {
    left_out_rows_ += rows;
    take(rows);
    return;
  }
  next_ = 0;
  if (training_ && options_.test_rows > 0) {
    training_ = false;
    return;
  }
  if (!training_) loss_ = loss_sum_ / static_cast<double>(options_.test_rows);
  training_ = true;
  loss_sum_ = 0;
  for (WorkerTally& t : tallies_) t.updates = 0;
  if (++epoch_ == options_.epochs) stopping_ = true;
}

}  // namespace crossbow
