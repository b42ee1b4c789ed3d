// Who trains: one replica of the model, and the step that improves it.
#pragma once

#include <array>
#include <cassert>
#include <memory>
#include <span>
#include <vector>

#include "device/sgd.h"
#include "learner/gradient_clip.h"
#include "plan/compiled_model.h"

namespace crossbow {

/// The batches that learners get, and the parts in which a step takes one: with more than one, it
/// adds up their gradients, each weighted by its rows, and then updates once.
struct BatchShape {
  int64_t rows = 0;       // of a whole batch
  int64_t last_rows = 0;  // of an epoch's last one; 0 if it is whole
  int64_t splits = 1;     // parts of a whole batch
  BatchFormat format;
  /// Of a worker whose steps differ in size: their rows, in place of whole and last batches.
  std::vector<int64_t> sizes = {};
  /// Of a whole batch where each part is a step of its own, and splits is 1: what is done for a
  /// batch once, by engine, source and record, would take longer than such a step.
  int64_t steps = 1;

  int64_t part_rows() const { return (rows + parts() - 1) / parts(); }
  int64_t parts() const { return splits * steps; }
  /// That a batch of so many rows takes.
  int64_t steps_of(int64_t batch_rows) const {
    return steps == 1 ? 1 : (batch_rows + part_rows() - 1) / part_rows();
  }
  /// Rows of the programs that training needs: of a part, and of what may be left for a last one.
  std::vector<int64_t> program_rows() const;
};

/// How the learners of a device work; the same for all of them.
struct LearnerSetup {
  BatchShape batch;
  Optimizer optimizer = make_sgd();
  double clip_norm = 0;  // of the whole gradient; 0: no limit
  /// Shared weights: the step leaves its gradient, and somebody else updates the weights.
  std::byte* shared_weights = nullptr;
  /// Storage of the optimizer's one slot, which learners share; else each has slots of its own.
  std::byte* shared_slot = nullptr;
  /// Of live weights: the learner takes the shared ones before each step, so that no step has to.
  bool takes_first = false;
  /// What learners are pulled towards, else null: the two sides of a central model, where their
  /// weights have two sides as well, or the first alone.
  std::array<std::byte*, 2> pulls_to{};
  /// Whether some steps of such learners stay on a side.
  bool stays = false;
  /// What no learner changes (ParameterLayout's frozen buffer); null if there is nothing.
  std::byte* frozen = nullptr;
  /// Where the whole batch's gradient is awaited part by part: as of Execution.
  std::vector<int64_t> gradient_cuts = {};
  /// Where the programs run, if elsewhere than where the learner's memory is, which is then the
  /// host's. They leave the gradient.
  Device* away = nullptr;
};

/// Owns its replica, in a device's memory. Learners that are pulled towards two sides have their
/// weights twice: a step reads those of one side and may write those of the other, so that others
/// can read the old ones meanwhile.
///
/// Steps are the work of a worker's queue, in its workspace, which others use between them. Each
/// begins when the learner's last one is done, wherever that ran. One thread at a time, whose
/// OpenMP width must be CompileOptions::threads.
///
/// A learner whose programs run away from home takes there what a step reads, fetches what it
/// leaves, and is done when `step` returns.
class Learner {
 public:
  /// Which side a step reads, and which it writes.
  struct Route {
    int from = 0, to = 0;
  };

  /// `model` must have been asked for the training programs before the workspaces were made, which
  /// are by worker, of the device where the programs run, and null for workers that never run this
  /// learner. `device`: where its memory is. Throws Error if the programs update
  /// (CompileOptions::update) and the setup needs the whole gradient first: for a clip norm, a
  /// batch in parts, shared weights, or programs that run elsewhere.
  Learner(CompiledModel& model, const LearnerSetup& setup, Device& device,
          std::span<const Workspace* const> workspaces);

  /// Forward, backward and update; `step.inputs` holds a whole or last batch. `pull`: towards the
  /// setup's side `route.from`. Calls `before_update()` before any weight is written, and
  /// writes none if it returns false; and `passed(n)` behind the n-th of the gradient's cuts, with
  /// what is written from there on. Leaves the mean loss of each of the batch's parts, before the
  /// update, in `losses`, which allocate_pinned of the programs' device has handed out (mean_loss
  /// makes one of them). Allocates nothing.
  template <typename F, typename G>
  void step(int worker, Step step, int64_t rows, double lr, double pull, Route route,
            std::span<float> losses, F before_update, G passed) {
    Queue& queue = begin(worker);
    step.update = setup_.optimizer.at(lr, pull);
    if (away_) away_->take(queue, *this);
    if (setup_.batch.steps > 1) {
      if (before_update()) take_steps(queue, worker, step, rows, route, losses);
      queue.mark(*done_);
      return;
    }
    bool updates;
    if (setup_.batch.splits > 1) {
      add_up_parts(worker, step, rows, route, losses);
      updates = before_update();
    } else {
      const BoundProgram& bound = bound_for(worker, route, rows);
      updates = bound.execution.run(step, before_update, passed);
      queue.fetch(losses.data(), bound.loss, sizeof(float));
    }
    if (away_) return land(queue, step.update, route);
    if (updates && updates_afterwards()) update(queue, step.update, route);
    queue.mark(*done_);
  }
  /// A step without a batch, with which a segment ends: the pull alone.
  void idle_step(int worker, double pull, Route route);
  /// Of a batch of so many rows.
  double mean_loss(std::span<const float> losses, int64_t rows) const;

  /// Of programs away from home: what nobody changes has changed here.
  void take_frozen() const;

  /// What follows upon the steps so far waits for this.
  const Event& done() const { return *done_; }
  /// Of live weights: from now on the learner's own are what the shared ones are.
  void take_shared(int worker);
  /// As step, of a whole batch in one part, adding each op's seconds to `seconds`, which has one
  /// element more than the program has ops: that of an update after them all.
  void timed_step(int worker, Step step, double lr, double pull, Route route,
                  std::span<double> seconds);

  std::byte* weights(int side) const {
    return setup_.shared_weights ? setup_.shared_weights : weights_[side].data();
  }
  /// The optimizer's; none where the weights are shared.
  std::span<const Buffer> slots() const { return slots_; }
  std::byte* gradients() const { return gradients_.data(); }
  std::byte* states() const { return states_.data(); }

 private:
  struct BoundProgram {
    BoundProgram(std::shared_ptr<const Program> program, const ReplicaView& replica,
                 const Workspace& workspace, std::span<const int64_t> gradient_cuts)
        : execution(std::move(program), replica, workspace, gradient_cuts),
          loss(execution.scalar_address("loss")) {}
    Execution execution;
    const float* loss;
  };

  /// Of a learner whose memory is the host's: what its programs work on elsewhere.
  struct Away {
    Buffer weights, gradients, states, frozen;
    std::unique_ptr<Queue> home;  // for work where the learner's memory is

    void take(Queue& queue, const Learner& learner) const;
    ReplicaView view() const;
  };

  /// Of a step away from home: its gradient and states come home, and the weights change there.
  void land(Queue& queue, const UpdateStep& step, Route route);
  ReplicaView view(Route route) const;
  /// Where clipping, a batch in parts, or a device elsewhere, needs the whole gradient first.
  bool updates_afterwards() const { return !programs_update_ && !setup_.shared_weights; }
  /// The worker's queue, in which a step of this learner may begin.
  Queue& begin(int worker);
  void update(Queue& queue, const UpdateStep& step, Route route);
  std::byte* next_weights(Route route) const {
    return setup_.takes_first ? nullptr : weights(route.to);
  }
  void take_steps(Queue& queue, int worker, Step step, int64_t rows, Route route,
                  std::span<float> losses);
  /// Leaves the batch's gradient in gradients().
  void add_up_parts(int worker, Step step, int64_t rows, Route route, std::span<float> losses);
  size_t index(int worker, Route route, size_t program) const {
    return static_cast<size_t>((worker * 2 + route.from) * 2 + route.to) * program_rows_.size() +
           program;
  }
  const BoundProgram& bound_for(int worker, Route route, int64_t rows) const {
    size_t program = 0;  // of few
    while (program_rows_[program] != rows) {
      ++program;
      assert(program < program_rows_.size());
    }
    const auto& bound = bound_[index(worker, route, program)];
    assert(bound);
    return *bound;
  }

  const LearnerSetup setup_;
  const DType dtype_;
  const int64_t elements_;
  const bool programs_update_;
  const std::vector<int64_t> program_rows_;
  const std::vector<const Workspace*> workspaces_;  // by worker
  Buffer weights_[2], gradients_, part_gradients_, states_;
  std::vector<Buffer> slots_;
  std::unique_ptr<const Away> away_;  // else null
  GradientClip clip_;
  const std::vector<ParameterLayout::Piece> pieces_;  // of an update after the programs
  std::unique_ptr<Event> done_;
  int last_worker_ = -1;
  std::vector<std::unique_ptr<const BoundProgram>> bound_;  // by index()
};

}  // namespace crossbow
