// Where an engine's run stands, beside its buffers.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "learner/card.h"
#include "learner/noise_scale.h"
#include "sync/async.h"

namespace crossbow {

/// What an asynchronous node has done in the run so far.
struct NodeReport {
  int64_t updates = 0, rows = 0;
  double busy = 0, waiting = 0;                  // seconds: of its steps; for others, or stretched
  int64_t staleness = 0, largest_staleness = 0;  // others' updates while its steps were under way

  double mean_staleness() const {
    return updates > 0 ? static_cast<double>(staleness) / static_cast<double>(updates) : 0;
  }
};

/// On a simulated network, a message under way.
struct Letter {
  int to = -1;  // below 0: none
  double arrives = 0, mass = 0;
};

/// What an algorithm's hooks go by.
struct NodeNumbers {
  /// That a node has under way: it then waits for one to arrive.
  static constexpr size_t kMostLetters = 4;

  int64_t steps = 0;
  double mass = 1;
  Peers::Inbox inbox;
  // On a simulated network:
  Card card;
  std::array<Letter, kMostLetters> letters{};
  int64_t sent = 0;  // messages in the whole run, of the node's weights or with another's
};

/// Of an asynchronous node, between segments.
struct NodeState {
  double time = 0;        // virtual, in steps of an ordinary node: when its turn comes
  bool stepping = false;  // has a gradient, to be applied then
  bool held = false;      // too far ahead to begin a step
  bool failed = false;    // takes no more steps, and does not count any more
  double lr = 0;          // of the step
  int64_t rows = 0;
  int64_t epoch_updates = 0;
  int64_t updates_before = 0;  // of all nodes, when the step began
  NodeNumbers numbers;
  NodeReport report;
};

/// Of unlike workers (learner/coordinator.h) one, between segments. A plain value.
struct WorkerState {
  int64_t size = 1;             // of its next step, in batches
  double updates = 0;           // in this epoch or round
  int64_t steps = 0;            // since its size was last looked at
  int64_t least = 0, most = 0;  // sizes of its steps in the run so far; 0: it had none
  int64_t repeated = 0;         // batches that it took although they may have been trained on

  bool operator==(const WorkerState&) const = default;
};

/// On the virtual clock one of the learners that wait for each other, which has failed.
struct LostNode {
  int node = 0;        // its number when the run began
  double seconds = 0;  // virtual, when it failed

  bool operator==(const LostNode&) const = default;
};

/// The numbers of an engine's state. A plain value.
struct EnginePlace {
  int64_t exchanges = 0;             // see with_learners; or turns of nodes, in the whole run
  int64_t since_exchange = 0;        // steps
  int64_t joined = 0;                // exchanges when the last learner joined, without momentum
  std::vector<NodeState> nodes;      // none of a synchronous engine
  std::vector<WorkerState> workers;  // to whom the nodes belong, if they are unlike
  Card server;                       // of nodes on a simulated network
  double virtual_time = 0;           // on the virtual clock, in steps of an ordinary learner
  // On that clock, of learners that wait for each other: the steps of each, when each was done with
  // its last one, and when the last exchange was complete.
  int64_t virtual_steps = 0;
  std::vector<double> virtual_ends;
  double virtual_exchange = 0;
  std::vector<LostNode> lost;  // of these, in this order; the learners are those that are left
  NoiseScale noise;            // of the learners' gradients in the whole run; kept if not measured

  /// For an engine of so many learners, where there were `before` (0: not known, after a loss of
  /// ranks). The count of exchanges becomes `exchanges_by_now`, those of learners who have been as
  /// many from the beginning, so that a mean over time reaches back over the same share of the run.
  /// Before the first exchange there is no mean, and the count stays 0.
  EnginePlace with_learners(int learners, int before, int64_t exchanges_by_now) const {
    EnginePlace place = *this;
    if (learners == before) return place;
    if (exchanges > 0) place.exchanges = std::max<int64_t>(1, exchanges_by_now);
    place.joined = learners > before ? place.exchanges : std::min(joined, place.exchanges);
    if (learners == 1 || before == 1) place.since_exchange = 0;
    return place;
  }
  /// After a loss, with which the others go on at that time.
  EnginePlace without(const LostNode& node, double time) const {
    EnginePlace place = *this;
    place.lost.push_back(node);
    place.virtual_ends.assign(place.virtual_ends.size() - 1, time);
    place.virtual_time = place.virtual_exchange = time;
    return place;
  }
};

}  // namespace crossbow
