// Who of several unlike workers trains on which rows, in batches of what size: CPU+GPU Hogbatch and
// Adaptive Hogbatch (Ma, Rusu, Wu & Sim, "Adaptive Stochastic Gradient Descent for Deep Learning on
// Heterogeneous CPU+GPU Architectures", 2021), without a thread and without a clock.
//
// Workers send requests, each with what they have done since the one before, and wait for an order.
// An epoch is trained, in ranges of rows that go to whoever asks; when nothing of it is under way
// any more, the test rows are shared out in the same way for the loss; then comes the next epoch,
// or the end.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

namespace crossbow {

/// A worker's batches are least·α^i, up to most: the sizes that it has programs for.
struct WorkerTerms {
  int64_t least = 1, most = 1;  // rows of a batch
  /// Batches of a training order: a live worker runs through many little ones, with all its
  /// threads.
  int64_t batches_per_order = 1;
  /// What a batch counts for among the updates: of Hogwild's, the share β that survives conflicts.
  double updates_per_batch = 1;
};

struct CoordinatorOptions {
  std::vector<WorkerTerms> workers;
  bool adaptive = false;  // else each worker keeps its first batch
  int64_t alpha = 2;      // above 1
  /// Where each worker's batches begin; the papers' choice is `least` of live workers, and `most`
  /// of replicas. One a worker.
  std::vector<int64_t> first_batches;
  double lr = 0.01;
  int64_t lr_batch = 0;  // the rate is lr·batch / lr_batch; 0: lr for all
  int64_t rows = 0, test_rows = 0;
  int64_t loss_rows = 4096;  // of a loss order, at most
  int64_t epochs = 1;
};

/// From a worker. Plain numbers, as orders are: both can be sent as bytes.
struct WorkRequest {
  int32_t worker = 0;
  double loss_sum = 0;  // of the rows of a loss order that it has done
};

/// To a worker: the rows [first, first + rows) of the epoch's order, or of the test set.
struct WorkOrder {
  enum class Kind : int32_t { train, loss, stop };
  Kind kind = Kind::stop;
  int64_t epoch = 0, first = 0, rows = 0;
  int64_t batch = 0;  // a training order's; its last batch may be smaller
  double lr = 0;

  bool operator==(const WorkOrder&) const = default;
};

struct AddressedOrder {
  int32_t worker = 0;
  WorkOrder order;

  bool operator==(const AddressedOrder&) const = default;
};

/// What became of a worker.
struct WorkerTally {
  int64_t batch = 0;              // of its next order
  double updates = 0;             // of this epoch
  int64_t batches = 0, rows = 0;  // of the run
  bool failed = false;
};

/// Every row of an epoch is trained on once, but for rows of orders whose worker failed, which may
/// have been trained on before, and for those that only failed workers had programs for. One
/// thread.
class Coordinator {
 public:
  /// Throws UsageError if the sizes of batches do not fit: each `most` is a `least`·α^i, and each
  /// `least` a multiple of the smallest.
  explicit Coordinator(const CoordinatorOptions& options);

  /// The worker has done its order, if it had one, and wants another. Orders for it, or for those
  /// that wait, are appended to `out`; a worker that gets none waits.
  void request(const WorkRequest& request, std::vector<AddressedOrder>& out);
  /// The worker does no more, and its order goes to others. Throws Error if it was the last one.
  void fail(int32_t worker, std::vector<AddressedOrder>& out);
  /// Whoever asks from now on is stopped.
  void stop() { stopping_ = true; }

  const std::vector<WorkerTally>& workers() const { return tallies_; }
  /// The mean loss of the last epoch whose test rows have all been done.
  std::optional<double> loss() const { return loss_; }
  int64_t epoch() const { return epoch_; }
  /// Rows of orders that were given again, of which some may have been trained on twice.
  int64_t repeated_rows() const { return repeated_rows_; }
  /// Rows that nobody left could take.
  int64_t left_out_rows() const { return left_out_rows_; }

  /// The batch sizes of a worker, ascending.
  static std::vector<int64_t> ladder(const WorkerTerms& terms, int64_t alpha);
  /// Rows of an epoch's last batch that no worker's sizes divide: 0, or one more program.
  static int64_t rest(const CoordinatorOptions& options);

 private:
  struct Range {
    int64_t first = 0, rows = 0;
  };
  enum class State { away, waits, works };

  void account_for(int32_t worker, double loss_sum);
  void adapt(int32_t worker);
  /// To all that wait and can have one.
  void hand_out(std::vector<AddressedOrder>& out);
  std::optional<WorkOrder> next_order(int32_t worker) const;
  /// Of the phase, that nobody has: its next part.
  Range left() const;
  void take(int64_t rows);
  void go_on();
  bool living(int32_t worker) const { return !tally(worker).failed; }
  WorkerTally& tally(int32_t worker) { return tallies_[static_cast<size_t>(worker)]; }
  const WorkerTally& tally(int32_t worker) const { return tallies_[static_cast<size_t>(worker)]; }
  const WorkerTerms& terms(int32_t worker) const {
    return options_.workers[static_cast<size_t>(worker)];
  }
  int32_t count() const { return static_cast<int32_t>(tallies_.size()); }

  const CoordinatorOptions options_;
  const int64_t grain_;  // the smallest batch, of which the others are multiples
  std::vector<WorkerTally> tallies_;
  std::vector<State> states_;
  std::vector<WorkOrder> orders_;  // of workers that work
  std::vector<Range> given_back_;  // by workers that failed, in this phase
  int64_t next_ = 0;               // row of the phase
  bool training_ = true, stopping_ = false;
  int64_t epoch_ = 0;
  double loss_sum_ = 0;
  std::optional<double> loss_;
  int64_t repeated_rows_ = 0, left_out_rows_ = 0;
};

}  // namespace crossbow
