// Learners that do not wait for each other.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "learner/coordinator.h"
#include "learner/engine.h"
#include "learner/nodes.h"
#include "learner/pace.h"
#include "learner/rank_events.h"

namespace crossbow {

/// Of unlike workers one. Its nodes run on threads of their own, a node a thread.
struct NodeWorker {
  WorkerTerms terms;
  std::vector<int64_t> rows;  // of its steps, ascending
  /// It takes the shared weights before each step; else its nodes are Hogwild's.
  bool replica = false;
};

struct AsyncSettings {
  /// Virtual: turns come in the order of seeded times, so the bits depend neither on workers nor on
  /// real times. Real: as soon as a step is done. Replayed: in the order of `replay`, for which the
  /// mail must hold back what comes too early.
  enum class Clock { virtual_time, real, replayed };
  Clock clock = Clock::real;
  Pace pace;  // virtual: of nodes and messages; real: its slowness stretches a node's steps
  /// Steps that a node may be ahead of the slowest when it begins another one.
  std::optional<int64_t> staleness;
  /// From the run's first on whose turn it was, or, of several ranks, codes of RankEvent.
  std::vector<int32_t> replay;
  /// Real clock: a node whose step takes longer has failed; in seconds.
  std::optional<double> lease;
  /// To whom the nodes belong, in this order, where they are unlike.
  std::vector<NodeWorker> workers = {};
  int64_t samples = 0;  // of unlike workers: in an epoch
  int64_t round = 0;    // of an algorithm that merges: batches of a round
  /// Of unlike workers: a step of s batches has (s / rate_size)^rate_exponent times the rate.
  double rate_exponent = 0, rate_size = 1;
};

/// The learners of one device, here called nodes, step at their own pace. A node's turn ends one
/// step and begins the next; turns are described one after the other, so a run computes what it
/// would if each were done at once. A node takes the next batch of the segment.
///
/// A segment that is stopped, or that ends within an epoch, leaves steps that have a gradient but
/// whose turn has not come; the next segment goes on with them. At the end of an
/// epoch, or of a round of an algorithm that merges, all nodes wait for the last one.
///
/// On a host device a node whose step throws, or outlasts its lease, has failed: it takes no more
/// steps, and its batch goes to another. A result that comes late is not used, but its thread is
/// lost to the others until then. NodesFailed ends the run if the batch fails again, or if the
/// last node fails. What goes wrong in a turn, which other nodes' turns build upon, or in reading a
/// batch, always ends it.
///
/// Of several ranks each has an engine, with as many nodes, which takes its share of a segment.
/// They use the real clock, or a replayed order, exchange what nodes share by mail while a segment
/// runs, and end it together. There a node that fails ends the run.
class AsyncEngine final : public Engine, private Mail::Receiver {
 public:
  /// `model` must not update by itself (CompileOptions::update), except to change live weights: by
  /// make_hogwild_sgd, with the real clock. Then turns have no order to be replayed in.
  AsyncEngine(CompiledModel& model, std::shared_ptr<const AsyncAlgorithm> algorithm,
              AsyncSettings settings, const EngineOptions& options)
      : AsyncEngine(std::array{&model}, std::move(algorithm), std::move(settings), options) {}
  /// Of unlike workers there is a model for each node, made over one ParameterLayout.
  AsyncEngine(std::span<CompiledModel* const> models,
              std::shared_ptr<const AsyncAlgorithm> algorithm, AsyncSettings settings,
              const EngineOptions& options);

  void start_from(const Replica& model) override;
  void salvage() override;
  std::vector<int32_t> take_turns() override { return std::exchange(order_, {}); }
  std::vector<NodeFailure> take_failures() override;
  std::optional<double> distance() override;
  bool synchronises() const override { return true; }
  int64_t round() const override { return settings_.round; }
  std::pair<double, double> sync_seconds() const override { return {turn_seconds_, 0}; }
  double share_seconds() const override { return share_seconds_; }
  const std::byte* weights(int j) const override { return nodes_.weights(j); }
  void time_step(const Step& step, double lr, std::span<double> seconds) override;
  UpdateTraffic update_traffic() const override;

 private:
  std::vector<EngineBuffer> buffers() const override;
  EnginePlace place() const override;
  void resume(const EnginePlace& place) override;
  using Seconds = std::chrono::duration<double>;
  enum class Phase { waits_for_turn, in_turn, waits_for_worker, fetches, computes, lands };
  enum class Asked { nothing, after_step, before_step };
  struct NodeClock {
    Phase phase = Phase::waits_for_turn;
    NodeState state;
    bool parked = false;  // until the round's end
    // When the node asked what its turn waits to be answered.
    Asked asked = Asked::nothing;
    int64_t number = 0;                    // of the next step in the segment
    std::array<Work, 4> works{};           // of the segment's last steps, by number
    double free_since = 0, turn_took = 0;  // real seconds
    double began = 0;                      // to compute
  };

  void begin(const Segment& segment) override;
  void work(int worker) override;
  void fail(std::exception_ptr error) override;
  bool failed() const override;
  void drain() override;
  void end(const Segment& segment) override;
  int64_t batches_done() const override;
  void write_evaluated(Queue& queue, std::byte* to) override;
  bool takes_part(int node) const override { return !clock(node).state.failed; }

  // Of mail, by its thread:
  bool wants(const Mail::Header& header) override;
  void receive(const Mail::Header& header, std::byte* vector) override;
  void room_is_free() override;
  void lost(std::exception_ptr error) override { fail(std::move(error)); }

  /// What a step leaves or, where programs update, begins with.
  std::byte* own_state(int node) const {
    return live_ ? learner(node).weights(0) : learner(node).gradients();
  }
  NodeClock& clock(int node) { return clocks_[static_cast<size_t>(node)]; }
  const NodeClock& clock(int node) const { return clocks_[static_cast<size_t>(node)]; }
  /// Of the epoch, or of what nodes do before they merge.
  bool ends_round() const {
    const int64_t end = segment().first_batch + segment().batches;
    return end == segment().epoch_batches || (round() > 0 && end % round() == 0);
  }
  bool is_whole_round() const {
    const int64_t end = segment().first_batch + segment().batches;
    return round() == 0 || end % round() == 0 || end <= round();
  }
  static const Work& last_work(const NodeClock& clock) {
    return clock.works[static_cast<size_t>(clock.number - 1) % clock.works.size()];
  }
  const NodeWorker* worker_of(int node) const {
    return coordinator_ ? &settings_.workers[static_cast<size_t>(coordinator_->worker_of(node))]
                        : nullptr;
  }
  /// For what the worker's thread does where the nodes' memory is.
  Queue& queue_at_home(int worker) const { return away(worker) ? *errands_ : queue(worker); }
  bool has_replica(int node) const { return worker_of(node) && worker_of(node)->replica; }
  /// Whether the thread computes the node's steps.
  bool runs(int worker, int node) const { return !coordinator_ || worker == node; }
  int64_t rows_of(const Work& work) const;
  double now() const { return Seconds(std::chrono::steady_clock::now() - start_).count(); }

  /// All of these with the lock. Which node's turn is next, for that thread, −1 if none may be
  /// taken now.
  int next_turn(int worker) const;
  int next_replayed() const;
  bool replays() const { return settings_.clock == AsyncSettings::Clock::replayed; }
  /// Of several ranks: what is to happen next; nothing after the last event.
  std::optional<RankEvent> event_to_replay() const;
  /// The same, where it must be there. Throws Error if it is not.
  RankEvent expected_event() const;
  void note(const RankEvent& event);
  /// When the node's turn comes, by the clock.
  double due(const NodeClock& clock) const;
  /// Of the gradients that the thread may compute and nobody does, the one whose batch is the
  /// oldest, since buffers of batches are few; −1 if there is none.
  int next_gradient(int worker) const;
  /// The segment is over, but for gradients of steps that it leaves under way.
  bool leaves_the_rest() const {
    return !dispatcher_.gives_again() &&
           (stopped_ || (dispatcher_.all_handed_out() && !ends_round()));
  }
  /// The turns tell all that happened: no node has failed, weights are not live, and nobody else
  /// than the nodes decides what they do.
  bool in_order() const {
    return !live_ && !coordinator_ && !mail_ && nodes_.living() == learners();
  }
  bool over() const;
  /// The node's step has failed. Throws NodesFailed if no other node can make up for it.
  void drop(int node, const std::string& why);
  void drop_late_nodes();
  bool may_outlast_lease(const NodeClock& clock) const;
  void clear_failed_nodes();
  void expect_more_turns() const;
  void expect_more_events() const;
  void wait_for_change(std::unique_lock<std::mutex>& lock);
  bool is_to_stop() const;
  void end_round();
  void take_turn(int worker, int node, std::unique_lock<std::mutex>& lock);
  void describe_turn(int node);
  void end_step(int node);
  /// Of several ranks: tells all of them what nodes there are.
  void gather_nodes();
  std::unique_ptr<Comm> make_sums();
  double sum_over_ranks(double value) const;
  void begin_next_step(int node);
  bool fails_now(int node) const;
  void fail_in_turn(int node);
  /// What a report counts: these real seconds, or virtual ones of so many steps where it is known
  /// how long a step takes.
  double reported(double seconds, double steps) const;
  bool may_begin(int node) const;
  void let_go_on();
  void compute(int worker, int node, std::unique_lock<std::mutex>& lock);

  const AsyncSettings settings_;
  const std::unique_ptr<Mail> mail_;     // to other ranks; else null
  std::atomic<uint32_t> sum_events_{0};  // what may end a wait for a sum
  std::unique_ptr<Comm> sums_;           // over ranks, where no server is evaluated
  /// For what comes by mail, or for workers whose programs run away from here: a host's queue,
  /// which several threads may use.
  const std::unique_ptr<Queue> errands_;
  Nodes nodes_;
  const bool live_;  // programs change the one set of weights, in no order
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();

  mutable std::mutex mutex_;  // guards all below, and the describing of turns
  std::condition_variable changed_;
  std::vector<NodeClock> clocks_;  // by node
  std::vector<int32_t> order_;
  std::optional<Arrivals> arrivals_;  // of several ranks
  size_t events_ = 0;                 // of these, in the whole run
  bool stopped_ = false;
  bool hurries_ = false;  // the run is to stop
  int64_t turns_ = 0, updates_ = 0;
  double turn_seconds_ = 0, ended_ = 0;             // the latter: when the last segment was over
  const std::unique_ptr<Coordinator> coordinator_;  // of unlike workers, else null
  BatchByBatch batches_;                            // of nodes that are alike
  Dispatcher& dispatcher_;                          // one of these two
  std::vector<NodeFailure> failures_;
  std::exception_ptr error_;
  std::vector<NodeState> of_all_ranks_;   // between segments
  double began_ = 0, share_seconds_ = 0;  // of the segment
};

}  // namespace crossbow
