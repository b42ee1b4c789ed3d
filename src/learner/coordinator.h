// Who of several unlike workers trains on which rows, in steps of what size: the coordinator of
// CPU+GPU Hogbatch and Adaptive Hogbatch (Ma & Rusu, "Heterogeneous CPU+GPU Stochastic Gradient
// Descent Algorithms", 2020), without a thread and without a clock.
//
// A worker has one node, or a node a thread. A node that is free asks for work, and so tells that
// its last step is done. It gets the next rows of the epoch, as many as a step of its worker has
// now. Whoever is faster asks more often and gets more of them.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "learner/dispatcher.h"
#include "learner/engine_place.h"
#include "sync/async.h"

namespace crossbow {

/// Sizes of steps are least·α^i, up to most: those that the worker has programs for. In batches of
/// the run, which are as large as the smallest step of all workers.
struct WorkerTerms {
  int nodes = 1;
  int64_t least = 1, most = 1;
  int64_t first = 1;  // what it begins with
  /// What a step counts for among the updates: of Hogwild's the share β that survives conflicts.
  double updates_per_step = 1;

  bool operator==(const WorkerTerms&) const = default;
};

/// Every row of an epoch is trained on once. Some are repeated: those of a failed node's step, of
/// which some may be in the model unless replicas are merged, and those that fill up a step where
/// fewer are left than the smallest step of all workers that still work.
class Coordinator final : public Dispatcher {
 public:
  /// Each worker's `most` is a least·α^i. `rows`: of a batch; `samples`: of an epoch, at least as
  /// many as any worker's smallest step.
  Coordinator(std::shared_ptr<const AsyncAlgorithm> algorithm, std::vector<WorkerTerms> workers,
              int64_t rows, int64_t samples);

  std::optional<Work> next(int node) override;
  void done(int node) override;
  void give_back(int node, const Work& work, const data::Batch& batch) override;
  Fetched fetch(const Work& work, int node) override;
  /// An epoch, or a round of an algorithm that merges, is over: updates are counted anew. `whole`:
  /// not only what an epoch had left, which tells too little of who is ahead.
  void end_round(bool whole = true);

  int worker_of(int node) const { return worker_of_[static_cast<size_t>(node)]; }
  const std::vector<WorkerState>& state() const { return states_; }
  /// Of another coordinator with the same workers, where these nodes still work.
  void restore(const std::vector<WorkerState>& states, std::span<const int> living_nodes);

  /// The sizes of a worker's steps, ascending.
  static std::vector<int64_t> sizes(int64_t least, int64_t most, int64_t alpha);

 private:
  std::optional<int64_t> oldest() const override;
  void adapt(size_t worker);
  bool works(size_t worker) const { return living_[worker] > 0; }

  const std::shared_ptr<const AsyncAlgorithm> algorithm_;
  const std::vector<WorkerTerms> terms_;
  const int64_t rows_, samples_;
  std::vector<int> worker_of_;  // by node
  std::vector<WorkerState> states_;
  const bool merges_;        // and then looks at sizes when a round ends
  std::vector<int> living_;  // nodes of each worker
  std::vector<Work> given_back_;
};

}  // namespace crossbow
