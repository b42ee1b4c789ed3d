// Learners that take the same steps, and agree at every exchange.
#pragma once

#include "comm/local.h"
#include "learner/central.h"
#include "learner/engine.h"
#include "learner/lockstep_time.h"

namespace crossbow {

/// With k learners in all, those of a rank and in it those of a device in a row, learner j has the
/// batches first + j, first + k + j, … of a segment: those of iterations 0, 1, …. All of an
/// iteration have the rate of its first batch, and a segment that is stopped ends after a whole
/// iteration.
///
/// Learners may be apart by as many iterations as two exchanges lie apart (beside a step's passes
/// by as many as one, and after the step by one less), if the source has batches for them; what
/// they compute does not depend on their timing.
class SynchronousEngine final : public Engine {
 public:
  /// `sync` is null for one learner on its own; the rest as of Engine.
  SynchronousEngine(CompiledModel& model, std::shared_ptr<const SyncAlgorithm> sync,
                    const EngineOptions& options);

  void start_from(const Replica& model) override;
  void salvage() override;
  std::optional<double> distance() override;
  bool synchronises() const override { return sync_ != nullptr; }
  std::pair<double, double> sync_seconds() const override;
  const std::byte* weights(int j) const override { return learner(j).weights(side()); }
  void time_step(const Step& step, double lr, std::span<double> seconds) override;
  UpdateTraffic update_traffic() const override;
  std::optional<LearnerLoss> next_loss(const Segment& segment) const override;

  /// Every learner goes on from the central model.
  void restart();

 private:
  std::vector<EngineBuffer> buffers() const override;
  EnginePlace place() const override;
  void resume(const EnginePlace& place) override;
  void begin(const Segment& segment) override;
  int queues_of_thread() const override;
  void work(int worker) override;
  void fail(std::exception_ptr error) override { scheduler_.fail(std::move(error)); }
  bool failed() const override { return scheduler_.failed(); }
  void drain() override;
  void end(const Segment& segment) override;
  int64_t batches_done() const override;
  void write_evaluated(Queue& queue, std::byte* to) override;

  LearnerSetup setup_of(int device) const;
  /// How the vectors are cut that exchanges add up over ranks: the whole, where that does not begin
  /// while the steps run. A GPU leaves many gradients to the step's end, and a batch in parts all.
  std::vector<ParameterLayout::Piece> buckets() const;
  bool step(int worker, const Scheduler::Task& task);
  void describe(int device, int64_t iteration, ExchangeInput& input) const;
  int64_t first_batch_of(int64_t iteration) const {
    return segment().first_batch + iteration * all_learners();
  }
  int64_t batch_of(int64_t iteration, int learner) const {
    return first_batch_of(iteration) + first_learner() + learner;
  }
  /// Of the segment's exchanges, in iterations.
  int64_t period_of(const Segment& segment) const;
  bool averages_gradients() const { return sync_ && sync_->traits().averages_gradients; }
  /// Null for one learner on its own.
  Central* central_of(int device) const {
    return centrals_.empty() ? nullptr : centrals_[static_cast<size_t>(device)].get();
  }
  /// The side of the learners' weights, and of all copies of z, that is valid between segments.
  int side() const { return sync_ ? central_of(0)->side() : 0; }
  /// The sides of the central model and of the learners' weights that a step of iteration i reads
  /// and writes.
  Learner::Route route_of(int64_t iteration) const;
  double pull_of(int64_t iteration) const;

  const std::shared_ptr<const SyncAlgorithm> sync_;  // null for one learner on its own
  Lockstep lockstep_;
  std::optional<LockstepTime> time_;  // on the virtual clock
  std::vector<LostNode> lost_;        // on that clock, before there were so few learners
  Scheduler scheduler_;
  const std::vector<ParameterLayout::Piece> buckets_;
  std::unique_ptr<LocalGroup> comm_;                // of several devices
  std::vector<std::unique_ptr<Central>> centrals_;  // by device
  std::unique_ptr<Comm> world_comm_;                // of several ranks; sums what a central has
  std::vector<Central::Scratch> scratch_;           // by worker
  bool salvaged_ = false;                           // since the last segment
  std::optional<double> before_restart_;            // the distance, since that segment
};

}  // namespace crossbow
