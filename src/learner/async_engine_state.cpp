// What nodes have come to, between segments.
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "core/error.h"
#include "learner/async_engine.h"
#include "learner/distance.h"

namespace crossbow {

namespace {

/// Of a node what ranks tell each other: all but what only a virtual clock or a simulated network
/// has.
struct Told {
  bool stepping;
  double lr;
  int64_t rows, epoch_updates, updates_before;
  int64_t steps, sent;
  double mass;
  Peers::Inbox inbox;
  NodeReport report;
};

Told told(const NodeState& s, const NodeNumbers& n) {
  return {s.stepping, s.lr,   s.rows, s.epoch_updates, s.updates_before,
          n.steps,    n.sent, n.mass, n.inbox,         s.report};
}

NodeState state_of(const Told& t) {
  NodeState s;
  s.stepping = t.stepping;
  s.lr = t.lr;
  s.rows = t.rows;
  s.epoch_updates = t.epoch_updates;
  s.updates_before = t.updates_before;
  s.report = t.report;
  s.numbers.steps = t.steps;
  s.numbers.sent = t.sent;
  s.numbers.mass = t.mass;
  s.numbers.inbox = t.inbox;
  return s;
}

}  // namespace

void AsyncEngine::gather_nodes() {
  if (!mail_) return;
  std::vector<Told> own;
  for (int j = 0; j < learners(); ++j) own.push_back(told(clock(j).state, nodes_.numbers(j)));
  of_all_ranks_.clear();
  for (const Told& t : gathered(*options().world, std::span<const Told>(own))) {
    of_all_ranks_.push_back(state_of(t));
  }
}

std::unique_ptr<Comm> AsyncEngine::make_sums() {
  return options().world->make_comm(std::array{layout().parameter_elements}, layout().dtype,
                                    [this] {
                                      sum_events_.fetch_add(1, std::memory_order_release);
                                      sum_events_.notify_all();
                                    });
}

double AsyncEngine::sum_over_ranks(double value) const {
  const auto all = gathered(*options().world, std::span<const double>(&value, 1));
  return std::reduce(all.begin(), all.end());
}

EnginePlace AsyncEngine::place() const {
  EnginePlace place;
  place.exchanges = turns_;
  if (mail_) {
    place.nodes = of_all_ranks_;
    return place;
  }
  for (int j = 0; j < learners(); ++j) {
    place.nodes.push_back(clock(j).state);
    place.nodes.back().numbers = nodes_.numbers(j);
    if (takes_part(j)) place.virtual_time = std::max(place.virtual_time, clock(j).state.time);
  }
  place.server = nodes_.server_card();
  if (coordinator_) place.workers = coordinator_->state();
  return place;
}

void AsyncEngine::resume(const EnginePlace& place) {
  if (place.nodes.empty()) return gather_nodes();
  if (std::ssize(place.nodes) != all_learners()) {
    crossbow::fail("its state is of {} nodes, and the run has {}", place.nodes.size(),
                   all_learners());
  }
  if (place.workers.size() != settings_.workers.size()) {
    crossbow::fail("its state is of {} workers, and the run has {}", place.workers.size(),
                   settings_.workers.size());
  }
  turns_ = place.exchanges;
  updates_ = 0;
  for (int j = 0; j < learners(); ++j) {
    clock(j) = {};
    clock(j).state = place.nodes[static_cast<size_t>(first_learner() + j)];
    nodes_.numbers(j) = clock(j).state.numbers;
    updates_ += clock(j).state.report.updates;
    if (clock(j).state.failed) nodes_.drop(j);
  }
  nodes_.server_card() = place.server;
  if (coordinator_) coordinator_->restore(place.workers, nodes_.living_nodes());
  gather_nodes();
}

std::vector<EngineBuffer> AsyncEngine::buffers() const {
  using Kind = EngineBuffer::Kind;
  std::vector<EngineBuffer> all;
  Device& device = this->device(0);
  for (int j = 0; j < learners(); ++j) {
    const int64_t at = first_learner() + j;
    if (!nodes_.live() || j == 0) {
      all.push_back({Kind::weights, at, nodes_.weights(j), &device, {}});
      const auto slots = nodes_.slots(j);
      for (size_t i = 0; i < slots.size(); ++i) {
        all.push_back({Kind::slot, at, slots[i].data(), &device, optimizer().slots[i]});
      }
    }
    all.push_back({Kind::states, at, learner(j).states(), &device, {}});
  }
  std::vector<std::byte*> rest = nodes_.state();
  for (int j = 0; j < learners(); ++j) {
    rest.push_back(own_state(j));
  }
  // Rank 0 has the server, and then each rank its nodes.
  size_t before = 0;
  if (mail_ && options().world->rank() > 0) {
    before = static_cast<size_t>(options().world->rank()) * rest.size() + nodes_.has_server();
  }
  for (size_t i = 0; i < rest.size(); ++i) {
    all.push_back({Kind::central, static_cast<int64_t>(before + i), rest[i], &device, {}});
  }
  return all;
}

std::optional<double> AsyncEngine::distance() {
  if (nodes_.live() || round() > 0) return {};  // those that merge have just done so
  const std::byte* const evaluated = snapshot().parameters.data();
  double sum = 0;
  on_each_device([&](int) {
    for (int j = 0; j < learners(); ++j) {
      if (!takes_part(j)) continue;
      sum += squared_distance(device(0), queue(0), layout().dtype, nodes_.weights(j), evaluated,
                              layout().parameter_elements);
    }
  });
  if (!mail_) return std::sqrt(sum / nodes_.living());
  return std::sqrt(sum_over_ranks(sum) / all_learners());
}

/// What messages held is lost.
void AsyncEngine::salvage() {
  if (mail_) sums_ = make_sums();
}

/// Of several ranks: one has the server, and of nodes each rank has its part of the mean, which is
/// what there is, too, where the server was lost.
void AsyncEngine::write_evaluated(Queue& queue, std::byte* to) {
  if (!mail_) return nodes_.write_evaluated(queue, to, nodes_.mass());
  World& all = *options().world;
  const char has_server = nodes_.server() != nullptr;
  const std::vector<char> servers = gathered(all, std::span(&has_server, 1));
  if (const auto it = std::ranges::find(servers, char{1}); it != servers.end()) {
    if (has_server) queue.copy(to, nodes_.server(), weight_bytes());
    queue.finish();
    return all.broadcast({to, weight_bytes()}, static_cast<int>(it - servers.begin()));
  }
  nodes_.write_evaluated(queue, to, sum_over_ranks(nodes_.mass()));
  const Comm::Sum sum = sums_->start_sum(queue, to, layout().parameter_elements);
  for (;;) {
    const uint32_t seen = sum_events_.load(std::memory_order_acquire);
    if (sums_->state(sum) != Comm::State::running) break;
    if (!sums_->advance()) sum_events_.wait(seen, std::memory_order_acquire);
  }
  if (sums_->state(sum) == Comm::State::failed) throw RankLost(sums_->failure());
}

/// Whatever a failed node has left, perhaps NaN, spoils no mean and no checkpoint.
void AsyncEngine::clear_failed_nodes() {
  Device& device = this->device(0);
  for (int j = 0; j < learners(); ++j) {
    if (takes_part(j)) continue;
    nodes_.clear(device, j);
    device.zero_now(learner(j).states(), model().states.size());
    device.zero_now(own_state(j), weight_bytes());
  }
}

}  // namespace crossbow
