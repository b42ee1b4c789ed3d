// What nodes have come to, between segments.
#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "learner/async_engine.h"
#include "learner/distance.h"

namespace crossbow {

EnginePlace AsyncEngine::place() const {
  EnginePlace place;
  place.exchanges = turns_;
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
  if (std::ssize(place.nodes) != learners()) {
    crossbow::fail("its state is of {} nodes, and the run has {}", place.nodes.size(), learners());
  }
  if (place.workers.size() != settings_.workers.size()) {
    crossbow::fail("its state is of {} workers, and the run has {}", place.workers.size(),
                   settings_.workers.size());
  }
  turns_ = place.exchanges;
  updates_ = 0;
  for (int j = 0; j < learners(); ++j) {
    clock(j) = {};
    clock(j).state = place.nodes[static_cast<size_t>(j)];
    nodes_.numbers(j) = clock(j).state.numbers;
    updates_ += clock(j).state.report.updates;
    if (clock(j).state.failed) nodes_.drop(j);
  }
  nodes_.server_card() = place.server;
  if (coordinator_) coordinator_->restore(place.workers, nodes_.living_nodes());
}

std::vector<EngineBuffer> AsyncEngine::buffers() const {
  using Kind = EngineBuffer::Kind;
  std::vector<EngineBuffer> all;
  Device& device = this->device(0);
  for (int j = 0; j < learners(); ++j) {
    if (!nodes_.live() || j == 0) {
      all.push_back({Kind::weights, j, nodes_.weights(j), &device, {}});
      const auto slots = nodes_.slots(j);
      for (size_t i = 0; i < slots.size(); ++i) {
        all.push_back({Kind::slot, j, slots[i].data(), &device, optimizer().slots[i]});
      }
    }
    all.push_back({Kind::states, j, learner(j).states(), &device, {}});
  }
  std::vector<std::byte*> rest = nodes_.state();
  for (int j = 0; j < learners(); ++j) {
    rest.push_back(own_state(j));
  }
  for (size_t i = 0; i < rest.size(); ++i) {
    all.push_back({Kind::central, static_cast<int64_t>(i), rest[i], &device, {}});
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
  return std::sqrt(sum / nodes_.living());
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
