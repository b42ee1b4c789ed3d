// Trains a machine's learners: what all ways of synchronising them share.
#pragma once

#include <array>
#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "comm/world.h"
#include "core/exceptions.h"
#include "data/batch_source.h"
#include "learner/dispatcher.h"
#include "learner/engine_place.h"
#include "learner/learner.h"
#include "learner/noise_scale.h"
#include "learner/pace.h"
#include "learner/workers.h"
#include "plan/roofline.h"

namespace crossbow {

struct EngineOptions {
  int learners = 1;    // of each device
  ThreadPlan threads;  // as many a worker as CompileOptions::threads
  BatchShape batch;
  Optimizer optimizer = make_sgd();
  double clip_norm = 0;           // 0: no limit
  uint64_t seed = 0;              // of what layers draw, and of the pace
  std::optional<Pace> pace = {};  // on the virtual clock, which learners that wait follow
  World* world = nullptr;         // of ranks that have as many learners; null without others
  /// By worker: the device where its programs run, if that is not the engine's, which is then the
  /// host; else null. Empty: all run on the engine's.
  std::vector<Device*> away = {};
};

/// Consecutive batches of an epoch, between which nothing but the rate changes.
struct Segment {
  data::BatchSource* source = nullptr;
  int64_t epoch = 0;
  int64_t epoch_batches = 0;             // of the whole epoch
  int64_t first_batch = 0, batches = 0;  // of the segment
  data::BatchShare share = {};           // of asynchronous nodes: what those of this rank take
  bool after_first_drop = false;         // of the rate
  bool ends_at_drop = false;             // the rate drops to half or less at its end
  std::function<double(int64_t)> rate;   // of a step with that batch; any thread
  std::function<bool()> stop;            // asked before a step is begun; any thread
  // The same once a batch is begun: a segment that pauses ends as one that stops, but in no hurry.
  std::function<bool()> pause = [] { return false; };
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

/// With what is evaluated, all that a run needs to go on bit for bit.
struct EngineState {
  EnginePlace place;
  std::vector<EngineBuffer> buffers;  // the engine's own, valid until its next segment
};

/// Of an asynchronous node, whose batch went to another.
struct NodeFailure {
  int node;
  std::string why;
  bool in_step = true;  // whose batch another node takes
};

/// On the virtual clock, of learners that wait for each other one that fails in a segment.
struct LearnerLoss {
  int64_t batches = 0;  // the first ones of the segment, up to where the others go on from
  int learner = 0, node = 0;
  double noticed = 0;  // in steps of an ordinary learner, when the others go on
};

/// No node is left that could make up for those that have failed.
struct NodesFailed : Error {
  using Error::Error;
};

/// What engines share: devices, workers and their workspaces, learners and their steps under way.
/// How the learners are synchronised is an engine's own: the functions that have no body here, and
/// those below that it adds to. One thread calls.
class Engine {
 public:
  virtual ~Engine() = default;
  Engine(const Engine&) = delete;

  /// Gives every learner these weights and states, which lie in the host's memory, and zero
  /// slots.
  virtual void start_from(const Replica& model);

  /// Trains until the segment is done or `stop` or `pause` said so, calling `progress` a few times
  /// a second and at the end. Returns the number of batches done: the first ones of the segment.
  /// Rethrows what a learner failed with, after which only the destructor may be called, and where
  /// that is the loss of a rank, salvage.
  int64_t run(const Segment& segment);
  /// On which its learners have trained in the last segment, also if it has failed.
  int64_t samples_done() const { return samples_done_.load(std::memory_order_relaxed); }

  EngineState state() const;
  /// After RankLost, any number of times: makes state() and snapshot() of use, which are those
  /// after the last exchange of which nothing is missing here; of asynchronous nodes, as they are.
  virtual void salvage() = 0;
  /// Goes on from the state of another engine, that evaluates `model`, as start_from takes it:
  /// `fill` writes what that engine's buffers held. A place without nodes has asynchronous ones
  /// begin anew, with the model. Throws Error if it is of another number of them.
  void restore(const Replica& model, const EnginePlace& place,
               const std::function<void(std::vector<EngineBuffer> buffers)>& fill);
  /// What there was since the last call, in order: whose turns, or, of several ranks, codes of
  /// RankEvent (learner/rank_events.h); nothing of learners that wait for each other.
  virtual std::vector<int32_t> take_turns() { return {}; }

  /// Who fails first in a segment that would have these batches, if somebody does.
  virtual std::optional<LearnerLoss> next_loss(const Segment& /*segment*/) const { return {}; }

  /// Nodes that have failed since the last call, while the others go on; any thread.
  virtual std::vector<NodeFailure> take_failures() { return {}; }

  /// The root of the mean square of the learners' distances from the central model, between
  /// segments; nothing where they have no weights of their own.
  virtual std::optional<double> distance() = 0;

  /// What is evaluated and saved: the evaluated weights, with the mean of the learners' states; a
  /// copy in the first device's memory that stays where it is, brought up to date by the call.
  Replica& snapshot();
  const Replica& model() const { return snapshot_; }

  /// Of all devices of this process.
  int learners() const { return static_cast<int>(learners_.size()); }
  /// Of all ranks, which have as many each, and the number among them of this process's first one.
  int all_learners() const { return learners() * (options_.world ? options_.world->size() : 1); }
  int first_learner() const { return learners() * (options_.world ? options_.world->rank() : 0); }
  Learner& learner(int j) { return *learners_[static_cast<size_t>(j)]; }
  const Learner& learner(int j) const { return *learners_[static_cast<size_t>(j)]; }
  /// Batches after whose multiples, counted in an epoch, all learners wait for each other: a
  /// segment must not go beyond one. 0: there is no such number.
  virtual int64_t round() const { return 0; }
  /// False for one learner on its own.
  virtual bool synchronises() const = 0;
  /// Seconds that all workers together have spent computing exchanges, and waiting for learners.
  virtual std::pair<double, double> sync_seconds() const = 0;
  /// Of several ranks of asynchronous nodes: how long this one took for its share of the segment.
  virtual double share_seconds() const { return 0; }
  /// Threads that give steps.
  int threads() const { return workers_.count() / queues_of_thread(); }
  /// Learner j's own, or what all share.
  virtual const std::byte* weights(int j) const = 0;
  /// Of the first learner's step, by the first worker, which calls: adds each op's seconds to
  /// `seconds`, and to its last element those of an update after them all.
  virtual void time_step(const Step& step, double lr, std::span<double> seconds) = 0;
  /// What a step, with its share of an exchange, must move in memory for its update.
  virtual UpdateTraffic update_traffic() const = 0;
  const BatchShape& batch() const { return options_.batch; }
  const Optimizer& optimizer() const { return options_.optimizer; }
  const ParameterLayout& layout() const { return *layout_; }
  Workers& workers() { return workers_; }
  /// Of the workers that can read the snapshot.
  std::span<const Workspace> evaluation_workspaces() const;
  Device& device() const { return *devices_[0]; }

 protected:
  /// A step that a queue has been given and that may still be under way.
  struct Flight {
    int64_t number = -1;  // of the learner's steps in the segment; none
    Fetched load;         // without a batch for a step that has none
    std::unique_ptr<Event> done;
    Buffer losses;  // by part of the batch

    std::span<float> part_losses() { return {losses.as<float>(), losses.size() / sizeof(float)}; }
  };

  /// `models` are one for all workers, or each worker's own over one ParameterLayout. They must
  /// have been asked for every program that will run; these programs share the workers' workspaces.
  Engine(std::span<CompiledModel* const> models, const EngineOptions& options);
  /// By the first worker of each device, so that what it allocates is near.
  void on_each_device(const std::function<void(int device)>& make);
  /// For a device's next learner, by on_each_device; `may_run` says on which workers.
  void add_learner(CompiledModel& model, const LearnerSetup& setup, int device,
                   const std::function<bool(int worker, int learner)>& may_run);

  virtual std::vector<EngineBuffer> buffers() const = 0;
  /// Without the noise scale.
  virtual EnginePlace place() const = 0;
  /// start_from, and what was written to buffers(), have brought the rest back.
  virtual void resume(const EnginePlace& place) = 0;

  virtual void begin(const Segment& segment) = 0;
  /// To how many workers' queues a thread gives work: that of the first of them.
  virtual int queues_of_thread() const { return 1; }
  /// Gives the queues of this worker's thread steps until the segment is over for them, or has
  /// failed.
  virtual void work(int worker) = 0;
  /// Ends the segment: what waits in work() returns. The first error is kept. Any thread.
  virtual void fail(std::exception_ptr error) = 0;
  virtual bool failed() const = 0;
  /// Blocks until nothing of what synchronises is under way, whatever became of it.
  virtual void drain() = 0;
  /// The segment is over, and nothing is under way. Rethrows what it failed with.
  virtual void end(const Segment& segment) = 0;
  /// Batches of the segment that are done without a gap.
  virtual int64_t batches_done() const = 0;
  /// Gives the queue, of the first device, what writes the evaluated weights there.
  virtual void write_evaluated(Queue& queue, std::byte* to) = 0;
  /// Takes what is measured further.
  NoiseScale& measured_noise() { return noise_scale_; }

  /// The step of that number has the batch, if there is one: acquires it, fills in what the step
  /// reads of it, and returns where the flight is to be noted.
  Flight& prepare(int learner, int64_t number, int64_t batch, Step& step);
  Flight& prepare(int learner, int64_t number, const Fetched& load, Step& step);
  /// All of a prepared step has been given to the queue: it lands when its event is done. On the
  /// host that is now; elsewhere where the engine says so.
  void launch(Queue& queue, int learner, Flight& flight, int64_t number);
  /// Waits for the step's end, if there is one, and gives its batch back.
  void land(int learner, Flight& flight);
  /// Where the learner's step of that number is noted.
  Flight& flight(int learner, int64_t number) {
    return flights_[static_cast<size_t>(learner)][static_cast<size_t>(number % 2)];
  }
  /// The flight's batch, if it has one, to whom it was taken from.
  static void give_back_batch(Flight& flight) {
    Fetched& load = flight.load;
    if (load.batch) load.source->release(*std::exchange(load.batch, nullptr));
  }
  /// Whether what it has learned is part of the model.
  virtual bool takes_part(int /*learner*/) const { return true; }
  /// Steps of the segment that have landed.
  int64_t landed(int learner) const {
    return landed_[static_cast<size_t>(learner)].load(std::memory_order_acquire);
  }

  const Segment& segment() const { return segment_; }
  int64_t rows_of(int64_t batch) const;
  int device_of(int learner) const { return learner / options_.learners; }
  int device_of_worker(int worker) const { return worker / options_.threads.workers; }
  /// Where the worker's programs run, if not where the learners' memory is.
  Device* away(int worker) const {
    return options_.away.empty() ? nullptr : options_.away[static_cast<size_t>(worker)];
  }
  Queue& queue(int worker) const { return workspaces_[static_cast<size_t>(worker)].queue(); }
  Device& device(int index) const { return *devices_[static_cast<size_t>(index)]; }
  const std::vector<Device*>& devices() const { return devices_; }
  size_t weight_bytes() const { return snapshot_.parameters.size(); }
  const EngineOptions& options() const { return options_; }

 private:
  /// A learner's last two steps. They land in order.
  using Flights = std::array<Flight, 2>;

  std::vector<Buffer> gather_states() const;
  /// What the device's learners and programs read, and nobody changes.
  const Buffer& frozen(int device) const {
    return device == 0 ? snapshot_.frozen : frozen_[static_cast<size_t>(device) - 1];
  }
  void land_all();
  /// Ends the segment with the exception that is being handled.
  void give_up();

  const EngineOptions options_;
  const std::shared_ptr<const ParameterLayout> layout_;
  const std::vector<Device*> devices_;
  std::vector<Workspace> workspaces_;  // by worker
  std::vector<Flights> flights_;       // by learner
  std::vector<std::unique_ptr<Learner>> learners_;
  std::vector<std::atomic<int64_t>> landed_;  // by learner
  std::atomic<int64_t> samples_done_{0};
  Replica snapshot_;
  NoiseScale noise_scale_;
  std::vector<Buffer> frozen_;    // of each device but the first
  std::vector<Buffer> gathered_;  // states of learners whose memory is another device's
  Segment segment_;
  int evaluators_ = 0;  // the first workers, who have a model as the evaluated one
  Workers workers_;     // last: its threads use all of the above
};

}  // namespace crossbow
