// Trains a machine's learners: who has which batch, who runs where, when they agree.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "comm/local.h"
#include "data/batch_source.h"
#include "learner/central.h"
#include "learner/learner.h"
#include "learner/workers.h"
#include "plan/bound.h"

namespace crossbow {

struct EngineOptions {
  int learners = 1;    // of each device
  ThreadPlan threads;  // as many a worker as CompileOptions::threads
  BatchShape batch;
  Optimizer optimizer = make_sgd();
  double clip_norm = 0;  // 0: no limit
  uint64_t seed = 0;     // of what layers draw
};

/// Consecutive batches of an epoch, between which nothing but the rate changes. With k learners
/// in all, those of a device in a row, learner j has the batches first + j, first + k + j, …: those
/// of iterations 0, 1, ….
struct Segment {
  data::BatchSource* source = nullptr;
  int64_t epoch = 0;
  int64_t epoch_batches = 0;              // of the whole epoch
  int64_t first_batch = 0, batches = 0;   // of the segment
  bool after_first_drop = false;          // of the rate
  bool ends_at_drop = false;              // the rate drops at its end
  std::function<double(int64_t)> rate;    // of the iteration that begins at that batch; any thread
  std::function<bool()> stop;             // asked before each iteration; any thread
  std::span<float> losses;                // by batch of the segment; read them in `progress`
  std::function<void(int64_t)> progress;  // told how many batches are done, from run's thread
};

/// A flat buffer of a running engine.
struct EngineBuffer {
  enum class Kind { weights, slot, states, central };
  Kind kind;
  int64_t index;  // of the learner, 0 where all share it; of the central model's buffer
  std::byte* data;
  Device* device;    // whose memory it is
  std::string slot;  // which of the optimizer's
};

/// Owns the learners, the central model, the workers and their workspaces. One thread calls.
///
/// Learners may be apart by as many iterations as two exchanges lie apart (one less than one where
/// the algorithm does not overlap), if the source has batches for them; what they compute does not
/// depend on their timing.
class Engine {
 public:
  /// `model` must have been asked for every program that will run, these programs sharing the
  /// workers' workspaces. `sync` is null for one learner on its own.
  Engine(CompiledModel& model, std::unique_ptr<const SyncAlgorithm> sync,
         const EngineOptions& options);

  /// Gives every learner and the central model these weights and states, which lie in the host's
  /// memory, and zero slots.
  void start_from(const Replica& model);

  /// Trains until the segment is done or `stop` said so, calling `progress` a few times a second
  /// and at the end. Returns the number of batches done, all of a whole iteration unless the epoch
  /// ended. Rethrows what a learner failed with, after which only the destructor may be called.
  int64_t run(const Segment& segment);

  /// What a run needs, beside snapshot(), to go on bit for bit; valid until the next segment.
  std::vector<EngineBuffer> buffers() const;
  /// To be called when start_from and what was written to buffers() have brought a run back, at the
  /// place that these two give.
  void resume(int64_t exchanges, int64_t since_exchange);
  int64_t exchanges() const { return lockstep_.exchanges(); }
  int64_t since_exchange() const { return lockstep_.since_exchange(); }

  /// Every learner goes on from the central model.
  void restart();

  /// What is evaluated and saved: the central model, with the mean of the learners' states; a copy
  /// in the first device's memory that stays where it is, brought up to date by the call.
  Replica& snapshot();
  const Replica& model() const { return snapshot_; }

  /// Of all devices.
  int learners() const { return static_cast<int>(learners_.size()); }
  Learner& learner(int j) { return *learners_[static_cast<size_t>(j)]; }
  /// False for one learner on its own.
  bool synchronises() const { return sync_ != nullptr; }
  /// Seconds that all workers together have spent computing exchanges, and waiting for learners.
  std::pair<double, double> sync_seconds() const;
  /// Learner j's own, or what all share.
  const std::byte* weights(int j) const {
    return learners_[static_cast<size_t>(j)]->weights(side());
  }
  /// Of the first learner's step, by the first worker, which calls: adds each op's seconds to
  /// `seconds`, and to its last element those of an update after them all.
  void time_step(const Step& step, double lr, std::span<double> seconds);
  /// What a step, with its share of an exchange, must move in memory for its update.
  UpdateTraffic update_traffic() const;
  const BatchShape& batch() const { return options_.batch; }
  const Optimizer& optimizer() const { return options_.optimizer; }
  const ParameterLayout& layout() const { return *layout_; }
  Workers& workers() { return workers_; }
  /// Of the workers that can read the snapshot.
  std::span<const Workspace> evaluation_workspaces() const;
  Device& device() const { return *devices_[0]; }

 private:
  /// A step that a queue has been given and that may still be under way.
  struct Flight {
    int64_t iteration = -1;              // of the segment; none
    int64_t index = 0;                   // of the batch in the epoch
    const data::Batch* batch = nullptr;  // null for a step without one
    std::unique_ptr<Event> done;
    Buffer losses;  // by part of the batch
  };
  /// A learner's: the one under way, and the one that is being given. They land in order.
  using Flights = std::array<Flight, 2>;

  void work(int worker);
  /// Waits for the step's end, if there is one, and returns its batch.
  void land(int learner, Flight& flight);
  /// At a segment's end: nothing is under way any more.
  void land_all();
  /// Ends the segment with the exception that is being handled.
  void give_up();
  bool step(int worker, const Scheduler::Task& task);
  void describe(int device, int64_t iteration, ExchangeInput& input) const;
  int device_of(int learner) const { return learner / options_.learners; }
  int64_t batch_of(int64_t iteration, int learner) const {
    return segment_.first_batch + iteration * learners() + learner;
  }
  int device_of_worker(int worker) const { return worker / options_.threads.workers; }
  /// The first device's, which all others equal; null for one learner on its own.
  const Central* central() const { return central_of(0); }
  /// The side of the learners' weights that is valid between segments.
  int side() const { return central() ? central()->side() : 0; }
  /// The sides of the central model and of the learners' weights that a step of iteration i reads
  /// and writes.
  Learner::Route route_of(int64_t iteration) const;
  double pull_of(int64_t iteration) const;
  /// Null for one learner on its own.
  Central* central_of(int device) const {
    return centrals_.empty() ? nullptr : centrals_[static_cast<size_t>(device)].get();
  }
  void make_device(CompiledModel& model, int device);
  int64_t batches_done() const;
  int64_t rows_of(int64_t batch) const;

  const EngineOptions options_;
  const std::shared_ptr<const ParameterLayout> layout_;
  const std::vector<Device*> devices_;
  const std::shared_ptr<const SyncAlgorithm> sync_;  // null for one learner on its own
  Lockstep lockstep_;
  Scheduler scheduler_;
  std::unique_ptr<LocalGroup> comm_;                // of several devices
  std::vector<std::unique_ptr<Central>> centrals_;  // by device
  std::vector<Workspace> workspaces_;               // by worker
  std::vector<Flights> flights_;                    // by learner
  std::vector<std::unique_ptr<Learner>> learners_;
  std::unique_ptr<std::atomic<int64_t>[]> landed_;  // steps of the segment, by learner
  Replica snapshot_;
  std::vector<Buffer> gathered_;           // states of learners whose memory is another device's
  std::vector<Central::Scratch> scratch_;  // by worker
  Segment segment_;
  Workers workers_;  // last: its threads use all of the above
};

}  // namespace crossbow
