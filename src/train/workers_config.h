// What a run's options say of unlike workers (learner/coordinator.h).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "learner/async_engine.h"
#include "train/options.h"
#include "train/record.h"

namespace crossbow {

/// KIND:key=value,… of `worker`. A plain value.
struct WorkerConfig {
  bool replica = false;  // else live
  /// Where its steps run, if elsewhere than the run's others; else empty.
  std::string device = {};
  /// Of a live worker as many nodes, of one thread each; of a replica the threads of its one node.
  int threads = 1;
  int64_t least = 1, most = 1;  // rows of its steps
  double beta = 1;              // what a step of a live worker counts for among the updates

  int nodes() const { return replica ? 1 : threads; }
  int threads_per_node() const { return replica ? threads : 1; }
  std::string kind() const { return replica ? "replica" : "live"; }
  bool is_away() const { return !device.empty(); }
  bool operator==(const WorkerConfig&) const = default;
};

/// "a live worker of 1 thread, batches of 1 to 64; a replica of 1 thread, batches of 64 to 1024".
std::string text_of(const std::vector<WorkerConfig>& workers);

/// Of options whose algorithm has unlike workers and whose `worker` is set; the first is not away.
/// Throws UsageError for a text that says something else, sizes that do not fit each other, or
/// devices that are not there.
std::vector<WorkerConfig> workers_of(const TrainOptions& options);
/// As the text says, on any machine: a worker that names the run's device is away, too.
std::vector<WorkerConfig> written_workers(const TrainOptions& options);
/// Whether their workers, if there are any, differ in where they are at most.
bool have_same_workers(const TrainOptions& a, const TrainOptions& b);
bool has_worker_on_gpu(const TrainOptions& options);
/// Whether this machine has the device of the run and those of its workers.
bool has_devices_of(const TrainOptions& options);

/// Whether the algorithm of that name has unlike workers.
bool has_unlike_workers(const std::string& sync);

/// For such an algorithm: chooses the workers where they are left open.
void fill_workers(TrainOptions& options);
/// The rows that count as a batch of the run: those of the smallest step of unlike workers, for
/// whom `batch` is what `lr` is for; else `batch`.
int64_t batch_of(const TrainOptions& options);
/// Throws UsageError if options of other algorithms are set beside workers, or the reverse.
void validate_workers(const TrainOptions& options);

/// As AsyncOptions has it; valid as long as the options.
std::string_view merge_of(const TrainOptions& options);
/// Null of a worker that is not away.
Device* away_device(const WorkerConfig& worker);
/// Rows of the worker's steps, ascending.
std::vector<int64_t> step_rows(const WorkerConfig& worker, const AsyncAlgorithm& algorithm);
/// Of such options.
std::unique_ptr<const AsyncAlgorithm> algorithm_of(const TrainOptions& options);
/// What the engine is told of a worker, in a run with batches of so many rows.
NodeWorker node_worker(const WorkerConfig& worker, const AsyncAlgorithm& algorithm, int64_t batch);
/// Batches of a round (AsyncSettings::round); 0 if the algorithm does not merge.
int64_t round_of(const std::vector<NodeWorker>& workers, const AsyncAlgorithm& algorithm);
/// What workers have done; none if the nodes are alike. `batch`: rows of the run's.
std::vector<WorkerReport> worker_reports(const std::vector<WorkerConfig>& workers,
                                         const EnginePlace& place, int64_t batch,
                                         const std::string& device);
/// Of such options: to what power of its rows a step's rate grows: 0, 1/2 or 1.
double rate_exponent(const TrainOptions& options);

}  // namespace crossbow
