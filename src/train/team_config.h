// What a run's team may be: so many learners on each device, and what follows from their number.
#pragma once

#include <climits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "learner/arrangement.h"
#include "learner/thread_plan.h"
#include "sync/async.h"
#include "sync/sync.h"
#include "train/options.h"
#include "train/workers_config.h"

namespace crossbow {

/// "cpu:0,cpu:1" is two devices of one kind, "cuda:1" one of "cuda:1".
struct DeviceList {
  std::string kind;  // as find_device has it
  int count = 1;
};
/// Throws UsageError if it says anything else.
DeviceList device_list(std::string_view text);

/// Of a device: more than have been of use to anybody.
constexpr int kMostLearners = 256;

/// Whether the options leave no choice but one learner in all.
bool is_alone(const TrainOptions& options);

/// Whether they leave it to the clock how many train.
bool looks_for_learners(const TrainOptions& options);

/// A plain value. A setting that depends on the number of learners belongs here.
struct TeamConfig {
  Arrangement arrangement;
  ThreadPlan threads;
  /// Null for a learner on its own, or where one learner makes it plain SGD.
  std::shared_ptr<const SyncAlgorithm> sync;
  /// Instead, of learners that do not wait for each other; else null.
  std::shared_ptr<const AsyncAlgorithm> async;
  /// To whom the nodes of that algorithm belong, if they are unlike.
  std::vector<WorkerConfig> workers;

  int ranks = 1;  // that the run has; each has such learners

  int learners() const { return ranks * learners_here(); }
  /// Of all devices of this process.
  int learners_here() const { return threads.devices * arrangement.learners; }
  bool averages_gradients() const { return sync && sync->traits().averages_gradients; }
  /// How many exchanges this team would have made before that batch of that epoch, both from 0, had
  /// it trained from the beginning; 0 without `sync`.
  int64_t exchanges_before(int64_t epoch, int64_t batch, int64_t epoch_batches) const;
};

/// Of learners and their threads, what the options leave, to be tried in that order; just one where
/// they leave nothing open, at least one. `most`: what fixed arithmetic, rather than the user or
/// the clock, may choose for a device.
std::vector<Arrangement> arrangements_of(const TrainOptions& options, int64_t most = INT_MAX);

/// Throws as make_sync does.
TeamConfig team_of(const TrainOptions& options, const Arrangement& arrangement);

/// Of those arrangements, as many as the algorithm takes. Throws as make_sync does if it takes none
/// or the options fit no team of several learners. None at all may be left of a run that is
/// resumed, which goes on as the team that it was.
std::vector<TeamConfig> teams_of(const TrainOptions& options);

/// What the options say of synchronisation, for so many learners in all.
SyncOptions sync_options(const TrainOptions& o, int learners);

/// With what the team's algorithm takes for those of these that are left open.
TrainOptions settled_options(TrainOptions options, const TeamConfig& team);

}  // namespace crossbow
